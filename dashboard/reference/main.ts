/** The page /docs/api: Scalar shows the OpenAPI document of this service, and signed-in readers can send requests with a test key. */
import './style.css';
import { loadDocument } from './document.ts';
import { type HeldKey, keepKey, readKey } from './key.ts';
import { ask, Refusal } from './service.ts';

/** What the bundle of Scalar puts on the page, as far as it is used here. */
type Scalar = {
  createApiReference(at: string, configuration: object): { updateConfiguration(configuration: object): void };
};
const { Scalar } = window as unknown as { Scalar: Scalar };

/** Everything that would ask another host is off; the policy of the page would stop it besides. */
const configuration = (content: object, key: string | null) => ({
  content,
  // The host that the reader came by: its own requests are the only ones that the page may make.
  servers: [{ url: location.origin }],
  authentication: { preferredSecurityScheme: 'key', ...(key !== null && { securitySchemes: { key: { token: key } } }) },
  withDefaultFonts: false,
  telemetry: false,
  persistAuth: false,
  defaultOpenAllTags: true,
  hideClientButton: true,
  showDeveloperTools: 'never',
  agent: { disabled: true },
  mcp: { disabled: true },
});

const part = <E extends HTMLElement>(id: string): E => document.getElementById(id) as E;
const use = part<HTMLButtonElement>('use');
const end = part<HTMLButtonElement>('end');
const dialog = part<HTMLDialogElement>('confirm');
const proof = part<HTMLInputElement>('proof');

const say = (text: string, link?: { to: string; text: string }): void => {
  const more = document.createElement('a');
  Object.assign(more, { href: link?.to ?? '', textContent: link?.text ?? '', target: '_blank' });
  part('said').replaceChildren(text, ...(link ? [' ', more] : []));
};

/** Not awaited up here: a module that waits has the build cut the whole dashboard into smaller files. */
const reference = loadDocument().then((content) => {
  const drawn = Scalar.createApiReference('#reference', configuration(content, readKey()?.text ?? null));
  return { use: (key: string | null) => drawn.updateConfiguration(configuration(content, key)) };
});
reference.catch(() => say('The reference cannot be loaded.', { to: '/docs/api.md', text: 'Read it as Markdown.' }));
/** The page as it is with a key, or without. */
function show(held: HeldKey | null): void {
  use.hidden = held !== null;
  end.hidden = held === null;
  if (held) say(`Requests use the test key ${held.hint}. It expires ${new Date(held.expiresAt).toLocaleString()}.`);
}
async function take(held: HeldKey | null): Promise<void> {
  keepKey(held);
  (await reference).use(held?.text ?? null);
  show(held);
}

/** Asks for a two-factor code, or for the password if two-factor authentication is off. Returns false if the reader cancels. */
async function confirm(): Promise<boolean> {
  const { user } = await ask('GET /:mode/me', undefined);
  const withCode = user.has_second_factor;
  part('proof-label').textContent = withCode ? 'Code from your authenticator app' : 'Password';
  proof.type = withCode ? 'text' : 'password';
  proof.autocomplete = withCode ? 'one-time-code' : 'current-password';
  proof.value = '';
  part('fault').textContent = '';
  dialog.showModal();
  return new Promise((done) => {
    dialog.onclose = () => done(false);
    part('back').onclick = () => dialog.close();
    dialog.querySelector('form')!.onsubmit = (event) => {
      event.preventDefault();
      ask('POST /:mode/confirm', withCode ? { code: proof.value.replaceAll(' ', '') } : { password: proof.value }).then(
        () => {
          done(true);
          dialog.close();
        },
        (error: Error) => {
          part('fault').textContent = error.message;
        },
      );
    };
  });
}

/** A test key that expires within a day. Only this page ever sees its text. */
async function makeKey(): Promise<HeldKey> {
  const { key, text } = await ask('POST /:mode/keys', { kind: 'secret', name: 'API reference', expires_in_days: 1, origins: [] });
  return { id: key.id, text, hint: key.hint, expiresAt: key.expires_at! };
}
/** Runs an action that needs a signed-in reader, after a confirmation where one is required. */
async function act(what: () => Promise<void>): Promise<void> {
  use.disabled = end.disabled = true;
  try {
    await what().catch(async (error) => {
      if (!(error instanceof Refusal) || error.code !== 'recent_authentication_required') throw error;
      if (await confirm()) await what();
    });
  } catch (error) {
    const { message } = error as Error;
    if (error instanceof Refusal && error.code === 'not_signed_in')
      say('Sign in to get a test key.', { to: '/dashboard/sign-in', text: 'Sign in' });
    else say(message);
  }
  use.disabled = end.disabled = false;
}

use.onclick = () => void act(async () => await take(await makeKey()));
end.onclick = () =>
  void act(async () => {
    const held = readKey();
    // Ended elsewhere meanwhile: then there is nothing left to do.
    if (held) await ask('POST /:mode/keys/:id/revoke', { name: 'API reference' }, held.id).catch(unlessEnded);
    await take(null);
    say('The key is revoked.');
    use.focus();
  });
function unlessEnded(error: unknown): void {
  if (!(error instanceof Refusal && error.code === 'key_ended')) throw error;
}
show(readKey());
