/** How the app is built: hashed files, one chunk a screen, nothing inlined, because the security policy allows own files alone. */
import tailwind from '@tailwindcss/vite';
import react from '@vitejs/plugin-react';
import { defineConfig } from 'vite';

export default defineConfig({
  base: '/dashboard/',
  plugins: [react(), tailwind()],
  build: { assetsInlineLimit: 0, target: 'es2023', manifest: true, modulePreload: { polyfill: false } },
});
