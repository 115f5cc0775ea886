/** How StartOS installs, runs, publishes and backs up Florin. */
import { buildManifest, IMPOSSIBLE, utils, VersionGraph, VersionInfo } from '@start9labs/start-sdk'
import { actions } from './actions'
import { manifest as sdkManifest } from './manifest'
import { sdk, settings } from './sdk'

const PORT = 3000

export const main = sdk.setupMain(async ({ effects }) => {
  // Read so that a change restarts the service.
  const { setupToken = '', publicUrl = '' } = (await settings.read().const(effects)) ?? {}
  const subcontainer = await sdk.SubContainer.of(
    effects,
    { imageId: 'florin' },
    sdk.Mounts.of().mountVolume({ volumeId: 'main', subpath: null, mountpoint: '/data', readonly: false }),
    'florin',
  )
  return sdk.Daemons.of(effects)
    .addOneshot('owner', {
      subcontainer,
      exec: { command: ['chown', 'node:node', '/data'], user: 'root' },
      requires: [],
    })
    .addDaemon('primary', {
      subcontainer,
      exec: {
        command: sdk.useEntrypoint(),
        user: 'node',
        env: {
          SETUP_TOKEN: setupToken,
          PUBLIC_URL: publicUrl,
          // The proxy of StartOS.
          TRUSTED_PROXIES: `${await sdk.getOsIp(effects)}/32`,
        },
        sigtermTimeout: 60_000,
      },
      ready: {
        display: 'Web interface',
        fn: () =>
          sdk.healthCheck.checkPortListening(effects, PORT, {
            successMessage: 'Florin is ready',
            errorMessage: 'Florin is not ready',
          }),
      },
      requires: ['owner'],
    })
})

const setInterfaces = sdk.setupInterfaces(async ({ effects }) => {
  const origin = await sdk.MultiHost.of(effects, 'ui-multi').bindPort(PORT, { protocol: 'http' })
  const ui = sdk.createInterface(effects, {
    name: 'Web interface',
    id: 'ui',
    description: 'The dashboard, the payment page and the API',
    type: 'ui',
    masked: false,
    schemeOverride: null,
    username: null,
    path: '',
    query: {},
  })
  return [await origin.export([ui])]
})

const setSettings = sdk.setupOnInit(async (effects, kind) => {
  if (kind !== 'install') return
  await settings.write(effects, { setupToken: utils.getDefaultString({ charset: 'a-z,A-Z,0-9', len: 32 }), publicUrl: '' })
})

const version = VersionInfo.of({
  version: '1.0.0-rc.1:0',
  releaseNotes: { en_US: 'The first release.' },
  migrations: { up: async () => {}, down: IMPOSSIBLE },
})
const versionGraph = VersionGraph.of({ current: version, other: [] })

export const { createBackup, restoreInit } = sdk.setupBackups(async () => sdk.Backups.ofVolumes('main'))
export const init = sdk.setupInit(restoreInit, versionGraph, setInterfaces, setSettings, actions)
export const uninit = sdk.setupUninit(versionGraph)
export { actions }
export const manifest = buildManifest(versionGraph, sdkManifest)
