/**
 * `window.btcpay` for the pages of shops: opens payment pages over the shop, as the plugins of shops expect. Its address is the base of
 * the pages it opens. It shows a page once that page says that it has loaded.
 */
type Listener = (event: MessageEvent) => void;
const script = document.currentScript as HTMLScriptElement | null;
let base = (script?.src ?? '').split('?')[0]!.replace(/\/modal\/btcpay\.js$/, '');
let onEnter = (): void => {};
let onLeave = (): void => {};
let onMessage: Listener = () => {};

/** The words of the modal in each language of the payment page. The service fills them in. */
const WORDS = '__WORDS__' as unknown as Readonly<Record<string, { title: string; close: string }>>;
/** The language of the shop, else that of the browser, else English. */
const wordsHere = (): { title: string; close: string } => {
  const known = Object.keys(WORDS);
  for (const tag of [document.documentElement.lang, ...navigator.languages]) {
    const asked = tag.toLowerCase().replace('_', '-');
    const chinese = /^zh\b.*-(hant|tw|hk|mo)\b/.test(asked) ? 'zh-tw' : asked;
    const exact = known.find((one) => one.toLowerCase() === chinese);
    const found = exact ?? known.find((one) => asked !== '' && one.toLowerCase().split('-')[0] === asked.split('-')[0]);
    if (found !== undefined) return WORDS[found]!;
  }
  return WORDS.en!;
};

const layer = { position: 'fixed', zIndex: '2147483647' };
/** Covers the shop while it is shown. */
const box = document.createElement('div');
box.setAttribute('role', 'dialog');
box.setAttribute('aria-modal', 'true');
box.style.display = 'none';
const frame = document.createElement('iframe');
frame.name = 'btcpay';
frame.setAttribute('allowtransparency', 'true');
frame.setAttribute('allow', 'clipboard-read; clipboard-write');
Object.assign(frame.style, { ...layer, border: '0', top: '0', left: '0', height: '100%', width: '100%' });
const closer = document.createElement('button');
closer.type = 'button';
closer.textContent = '×';
Object.assign(closer.style, {
  ...layer,
  top: '12px',
  right: '12px',
  width: '44px',
  height: '44px',
  // A shop gives its own buttons another shape.
  boxSizing: 'border-box',
  margin: '0',
  padding: '0',
  border: '1px solid #767676',
  borderRadius: '22px',
  background: '#fff',
  color: '#111',
  font: '24px/1 sans-serif',
  cursor: 'pointer',
});
/** Keeps the focus in the modal: what comes before its first element and after its last one leads to the other end. */
const edge = (to: HTMLElement): HTMLElement => {
  const stop = document.createElement('span');
  stop.tabIndex = 0;
  stop.addEventListener('focus', () => to.focus());
  return stop;
};
// The button lies over the page, so it comes last among elements with the same index.
box.append(edge(closer), frame, closer, edge(frame));

let focused: Element | null = null;
const addBox = (): void => {
  if (box.parentNode !== null) return;
  const { title, close } = wordsHere();
  box.setAttribute('aria-label', title);
  frame.title = title;
  closer.setAttribute('aria-label', close);
  document.body.append(box);
};
const showFrame = (): void => {
  addBox();
  onEnter();
  if (box.style.display !== 'block') focused = document.activeElement;
  box.style.display = 'block';
  frame.focus();
};
const hideFrame = (): void => {
  onLeave();
  box.style.display = 'none';
  box.remove();
  if (focused instanceof HTMLElement && focused.isConnected) focused.focus();
  focused = null;
};
const close = (): void => {
  const { contentWindow } = frame;
  hideFrame();
  onMessage(new MessageEvent('message', { data: 'close', origin: new URL(base, location.href).origin, source: contentWindow }));
};
closer.addEventListener('click', close);
box.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') close();
});

/** The page is loaded hidden. */
const load = (url: string): void => {
  frame.src = url;
  addBox();
};
type Options = string | { paymentMethodId?: string; animateEntrance?: boolean } | null;
const addressOf = (invoiceId: string, options?: Options): string => {
  const method = typeof options === 'string' ? options : options?.paymentMethodId;
  const id = encodeURIComponent(invoiceId);
  return method ? `${base}/i/${id}/${encodeURIComponent(method)}?view=modal` : `${base}/invoice?id=${id}&view=modal`;
};

addEventListener('message', (event) => {
  // Only what the page in the frame says.
  if (event.source === null || event.source !== frame.contentWindow) return;
  if (event.data === 'loaded') showFrame();
  else if (event.data === 'close') hideFrame();
  onMessage(event);
});

(window as unknown as { btcpay: object }).btcpay = {
  showFrame,
  hideFrame,
  showInvoice: (invoiceId: string, options?: Options) => load(addressOf(invoiceId, options)),
  appendInvoiceFrame: (invoiceId: string, options?: Options) => load(addressOf(invoiceId, options)),
  appendAndShowInvoiceFrame: (invoiceId: string, options?: Options) => {
    load(addressOf(invoiceId, options));
    showFrame();
  },
  setApiUrlPrefix: (prefix: string) => {
    base = prefix.replace(/\/$/, '');
  },
  onModalWillEnter: (callback: () => void) => {
    onEnter = callback;
  },
  onModalWillLeave: (callback: () => void) => {
    onLeave = callback;
  },
  onModalReceiveMessage: (callback: Listener) => {
    onMessage = callback;
  },
};
