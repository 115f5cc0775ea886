/** The settings of a Medusa store that takes payments with Florin. */
import { defineConfig, loadEnv } from '@medusajs/framework/utils';

loadEnv(process.env.NODE_ENV ?? 'development', process.cwd());

export default defineConfig({
  projectConfig: {
    databaseUrl: process.env.DATABASE_URL,
    http: {
      storeCors: process.env.STORE_CORS!,
      adminCors: process.env.ADMIN_CORS!,
      authCors: process.env.AUTH_CORS!,
      jwtSecret: process.env.JWT_SECRET!,
      cookieSecret: process.env.COOKIE_SECRET!,
    },
  },
  modules: [
    {
      resolve: '@medusajs/medusa/payment',
      options: {
        providers: [
          {
            resolve: 'medusa-payment-florin',
            id: 'florin',
            options: {
              url: process.env.FLORIN_URL,
              apiKey: process.env.FLORIN_API_KEY,
              webhookSecret: process.env.FLORIN_WEBHOOK_SECRET,
              returnUrl: `${process.env.STOREFRONT_URL}/checkout/florin?session={session_id}`,
            },
          },
        ],
      },
    },
  ],
});
