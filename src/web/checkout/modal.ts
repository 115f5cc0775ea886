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

const frame = document.createElement('iframe');
frame.name = 'btcpay';
frame.title = 'Payment';
frame.setAttribute('allowtransparency', 'true');
frame.setAttribute('allow', 'clipboard-read; clipboard-write');
Object.assign(frame.style, {
  display: 'none',
  border: '0',
  position: 'fixed',
  top: '0',
  left: '0',
  height: '100%',
  width: '100%',
  zIndex: '2147483646',
});
const closer = document.createElement('button');
closer.type = 'button';
closer.textContent = '×';
closer.setAttribute('aria-label', 'Close');
Object.assign(closer.style, {
  display: 'none',
  position: 'fixed',
  top: '12px',
  right: '12px',
  width: '44px',
  height: '44px',
  border: '1px solid #767676',
  borderRadius: '22px',
  background: '#fff',
  color: '#111',
  font: '24px/1 sans-serif',
  zIndex: '2147483647',
  cursor: 'pointer',
});

const showFrame = (): void => {
  if (frame.parentNode === null) document.body.append(frame, closer);
  onEnter();
  frame.style.display = closer.style.display = 'block';
};
const hideFrame = (): void => {
  onLeave();
  frame.style.display = closer.style.display = 'none';
  frame.remove();
  closer.remove();
};
closer.addEventListener('click', () => {
  const { contentWindow } = frame;
  hideFrame();
  onMessage(new MessageEvent('message', { data: 'close', origin: new URL(base, location.href).origin, source: contentWindow }));
});

/** The page is loaded hidden. */
const load = (url: string): void => {
  frame.src = url;
  if (frame.parentNode === null) document.body.append(frame, closer);
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
