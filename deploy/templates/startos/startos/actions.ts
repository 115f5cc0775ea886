/** What the owner of the server does without a shell. */
import { sdk, settings } from './sdk'

const showSetupCode = sdk.Action.withoutInput(
  'show-setup-code',
  async () => ({
    name: 'Show setup code',
    description: 'The code with which you create the first account, on the page /setup.',
    warning: null,
    allowedStatuses: 'any',
    group: null,
    visibility: 'enabled',
  }),
  async () => ({
    version: '1',
    title: 'Setup code',
    message: null,
    result: {
      type: 'single',
      value: (await settings.read(({ setupToken }) => setupToken).once()) ?? '',
      copyable: true,
      qr: false,
      masked: true,
    },
  }),
)

const setPublicAddress = sdk.Action.withInput(
  'set-public-address',
  async () => ({
    name: 'Set public address',
    description: 'The address under which shops and customers reach Florin. It must be one of the addresses of the web interface.',
    warning: null,
    allowedStatuses: 'any',
    group: null,
    visibility: 'enabled',
  }),
  sdk.InputSpec.of({
    publicUrl: sdk.Value.text({
      name: 'Public address',
      description: null,
      required: true,
      default: null,
      placeholder: 'https://pay.shop.example',
      patterns: [{ regex: '^https://[^/]+$', description: 'https:// and a hostname, without a path' }],
    }),
  }),
  async () => ({ publicUrl: (await settings.read(({ publicUrl }) => publicUrl).once()) ?? '' }),
  async ({ effects, input }) => {
    await settings.merge(effects, input)
  },
)

export const actions = sdk.Actions.of().addAction(showSetupCode).addAction(setPublicAddress)
