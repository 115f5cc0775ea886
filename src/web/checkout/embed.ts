/** Script for merchants' pages: the payment page in a dialog or inline, and `<florin-button>`, which creates payments with a public key. */
const API = '__API__';
const PAGE = '__PAGE__';
/** If the page has not responded this long after it loaded, the browser refused it or the service is down. */
const ANSWER_MS = 4000;
/** On small screens the full page works better than a frame. */
const SMALL = 640;

type Status = { id: string; status: string; state: string };
type Options = { paymentUrl: string; onStatus?: (status: Status) => void; onClose?: () => void };

const sheetOf = (css: string): CSSStyleSheet => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(css);
  return sheet;
};
/** What is shown until the page responds. */
const WORD = 'p{margin:3rem;text-align:center;font:1rem/1.5 system-ui,sans-serif}[hidden]{display:none!important}';
const DIALOG = sheetOf(
  WORD +
    'dialog{padding:0;border:0;border-radius:16px;width:min(50rem,94vw);height:min(50rem,94vh);overflow:hidden;background:#fff;box-shadow:0 12px 48px #0006}dialog::backdrop{background:#0b1220a6}' +
    'button{position:absolute;inset-block-start:8px;inset-inline-end:8px;width:44px;height:44px;border:0;border-radius:50%;background:#f1f3f6;color:#101820;font:24px/1 system-ui;cursor:pointer}' +
    'iframe{display:block;width:100%;height:100%;border:0;color-scheme:normal}@media(prefers-color-scheme:dark){dialog{background:#161c24;color:#e9eef4}button{background:#2d3742;color:#e9eef4}}',
);
const INLINE = sheetOf(`${WORD}:host{display:block}iframe{display:block;width:100%;min-height:20rem;border:0;color-scheme:normal}`);
const BUTTON = sheetOf(
  ':host{display:inline-block}button{font:600 1rem/1.4 system-ui,sans-serif;min-height:48px;padding:.6rem 1.4rem;border:0;border-radius:12px;background:var(--florin-accent,#1b4fd6);color:var(--florin-on,#fff);cursor:pointer}button:disabled{opacity:.6;cursor:default}:focus-visible{outline:3px solid var(--florin-accent,#1b4fd6);outline-offset:2px}p{margin:.4rem 0 0;font:.9rem/1.4 system-ui,sans-serif;color:#b3261e}p:empty{display:none}',
);

const make = <K extends keyof HTMLElementTagNameMap>(tag: K, more: Partial<HTMLElementTagNameMap[K]>): HTMLElementTagNameMap[K] =>
  Object.assign(document.createElement(tag), more);
const pageUrl = (text: string): URL => {
  const url = new URL(text);
  if (url.origin !== PAGE) throw new Error(`Florin: ${url.origin} does not serve payment pages, ${PAGE} does`);
  return url;
};

/**
 * A frame with the payment page, and a text in its place until the page responds. Messages are accepted only from the page, and sent
 * only to its origin. If the page may not be framed, the browser navigates to it instead, and a refused frame is never shown.
 */
function connect(
  options: Options,
  onHeight: (height: number) => void,
  onClose: () => void,
): { word: Node; frame: HTMLIFrameElement; end: () => void } {
  const url = pageUrl(options.paymentUrl);
  const frame = make('iframe', { title: 'Payment', hidden: true, allow: `clipboard-write ${PAGE}` });
  frame.setAttribute(
    'sandbox',
    'allow-scripts allow-same-origin allow-forms allow-popups allow-popups-to-escape-sandbox allow-top-navigation-by-user-activation allow-top-navigation-to-custom-protocols',
  );
  const word = make('p', { textContent: 'Loading…' });
  let waiting = 0;
  const hear = ({ source, origin, data }: MessageEvent): void => {
    if (source !== frame.contentWindow || origin !== PAGE || typeof data?.type !== 'string') return;
    if (data.type === 'florin.loaded') {
      clearTimeout(waiting);
      frame.hidden = false;
      word.hidden = true;
    }
    if (data.type === 'florin.resize') onHeight(Number(data.height));
    if (data.type === 'florin.status') options.onStatus?.({ id: data.id, status: data.status, state: data.state });
    if (data.type === 'florin.close') onClose();
  };
  const fail = () => word.replaceChildren(make('a', { href: url.href, textContent: 'Open the payment page' }));
  addEventListener('message', hear);
  frame.addEventListener('load', () => {
    // The initial empty document belongs to the merchant's page, not to the payment page.
    if (frame.contentDocument) return;
    frame.contentWindow?.postMessage({ type: 'florin.hello' }, PAGE);
    clearTimeout(waiting);
    if (frame.hidden) waiting = window.setTimeout(fail, ANSWER_MS);
  });
  // If this page's security policy blocks the request, only the frame shows whether it is refused.
  void fetch(`${PAGE}/pay/framing${url.search}`, { signal: AbortSignal.timeout(ANSWER_MS) })
    .then((reply) => reply.json())
    .catch(() => ({}))
    .then(({ allowed }) => {
      if (!word.isConnected) return;
      if (allowed === false) location.assign(url);
      // Only now, because an empty frame would have the merchant's own origin.
      else word.after(Object.assign(frame, { src: url.href }));
    });
  return {
    word,
    frame,
    end: () => {
      clearTimeout(waiting);
      removeEventListener('message', hear);
    },
  };
}

/** Opens the payment page over the merchant's page; on small screens, navigates to it. */
function open(options: Options): { close: () => void } {
  const url = pageUrl(options.paymentUrl);
  if (innerWidth < SMALL) {
    location.assign(url);
    return { close: () => {} };
  }
  const host = make('div', {});
  const root = host.attachShadow({ mode: 'open' });
  root.adoptedStyleSheets = [DIALOG];
  const dialog = make('dialog', { ariaLabel: 'Payment' });
  const button = make('button', { type: 'button', textContent: '×', ariaLabel: 'Close' });
  const { word, end } = connect(
    options,
    () => {},
    () => dialog.close(),
  );
  dialog.append(word, button);
  root.append(dialog);
  document.body.append(host);
  button.addEventListener('click', () => dialog.close());
  dialog.addEventListener('close', () => {
    end();
    host.remove();
    options.onClose?.();
  });
  dialog.showModal();
  return { close: () => dialog.close() };
}

/** Puts the payment page into an element, with the height of its content. */
function mount(element: Element, options: Options): { close: () => void } {
  const host = make('div', {});
  const root = host.attachShadow({ mode: 'open' });
  root.adoptedStyleSheets = [INLINE];
  const close = (): void => {
    if (!host.isConnected) return;
    end();
    host.remove();
    options.onClose?.();
  };
  const { word, frame, end } = connect(
    options,
    (height) => {
      if (height > 0) frame.style.height = `${Math.min(height, 4000)}px`;
    },
    () => {},
  );
  root.append(word);
  element.append(host);
  return { close };
}

class FlorinButton extends HTMLElement {
  private made = false;
  /** The key may not be used here: trying again does not help, and only the owner of the website can do something about it. */
  private refused = false;
  connectedCallback(): void {
    if (this.made) return;
    this.made = true;
    const root = this.attachShadow({ mode: 'open' });
    root.adoptedStyleSheets = [BUTTON];
    const button = make('button', { type: 'button' });
    button.part.add('button');
    button.append(make('slot', { textContent: 'Pay with crypto' }));
    const fault = make('p', { role: 'alert' });
    root.append(button, fault);
    button.addEventListener('click', async () => {
      button.disabled = true;
      fault.textContent = '';
      try {
        this.start(await this.create());
      } catch (error) {
        console.error(error);
        fault.textContent =
          this.getAttribute('error-text') ??
          (this.refused ? 'Payments are not set up for this website.' : 'The payment could not be started. Please try again.');
        this.tell('error', { message: (error as Error).message });
      } finally {
        button.disabled = false;
      }
    });
  }
  private tell(name: string, detail: object): void {
    this.dispatchEvent(new CustomEvent(`florin-${name}`, { detail, bubbles: true }));
  }
  private async create(): Promise<string> {
    const key = this.getAttribute('public-key') ?? '';
    this.refused = !/^(pk_|(live|test)_pk_)/.test(key);
    if (this.refused) throw new Error('public-key must be a public key (pk_...); a secret key never belongs on a page');
    const fields: Record<string, string> = {};
    for (const name of ['amount-usd', 'amount', 'currency-fiat', 'return-url', 'description', 'invoice-id', 'locale']) {
      const value = this.getAttribute(name);
      if (value !== null) fields[name.replace('-', '_')] = value;
    }
    fields.return_url ??= location.href.split('#')[0]!;
    const reply = await fetch(`${API}/api/payment/create/simple`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify(fields),
      signal: AbortSignal.timeout(30_000),
    });
    const answer = (await reply.json()) as { transaction_id: string; payment_url: string; error?: { message: string } };
    this.refused = reply.status === 401 || reply.status === 403;
    if (!reply.ok) throw new Error(answer.error?.message ?? `HTTP ${reply.status}`);
    this.tell('created', { id: answer.transaction_id, paymentUrl: answer.payment_url });
    return answer.payment_url;
  }
  private start(paymentUrl: string): void {
    const options: Options = {
      paymentUrl,
      onStatus: (status) => this.tell('status', status),
      onClose: () => this.tell('close', {}),
    };
    if (this.hasAttribute('inline')) {
      this.shadowRoot!.querySelector('button')!.hidden = true;
      this.style.display = 'block';
      mount(this.shadowRoot as unknown as Element, options);
    } else open(options);
  }
}

if (!customElements.get('florin-button')) customElements.define('florin-button', FlorinButton);
(window as unknown as { Florin: object }).Florin = { open, mount };
