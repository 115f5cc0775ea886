/** What StartOS shows of the service, and the image that it runs. */
import { setupManifest } from '@start9labs/start-sdk'

export const manifest = setupManifest({
  id: 'florin',
  title: 'Florin',
  license: 'MIT',
  packageRepo: 'https://florin.example/startos',
  upstreamRepo: 'https://florin.example/source',
  marketingUrl: 'https://florin.example',
  donationUrl: null,
  description: {
    short: { en_US: 'Be paid in cryptocurrency, straight into your own wallet' },
    long: {
      en_US:
        'Your customers pay on a hosted page in Bitcoin, Litecoin, Dogecoin, Dash, Ether or stablecoins, and the money goes straight into your wallets. Florin knows only public keys, so nothing on your server can spend it.',
    },
  },
  volumes: ['main'],
  images: {
    florin: {
      source: { dockerTag: 'registry.example/florin:1.0.0-rc.1' },
      arch: ['x86_64', 'aarch64'],
    },
  },
  alerts: { install: null, update: null, uninstall: null, restore: null, start: null, stop: null },
  dependencies: {},
})
