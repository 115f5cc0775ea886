/** Code with a copy button, and variants of it as tabs. */
import { type KeyboardEvent, useId, useRef, useState } from 'react';
import { CopyButton } from './values.tsx';

/** Wraps instead of scrolling, so all of it can be read at any width. */
export const Code = ({ text, label }: { text: string; label: string }) => (
  <div className="relative">
    <pre className="min-h-10 rounded-lg bg-raised py-2.5 pr-11 pl-3 font-mono text-[13px] leading-5 wrap-anywhere whitespace-pre-wrap text-ink">
      {text}
    </pre>
    <div className="absolute top-1.5 right-1.5">
      <CopyButton value={text} label={label} />
    </div>
  </div>
);

/** Shows one tab at a time. The arrow keys switch tabs. */
export function CodeTabs({ label, tabs }: { label: string; tabs: readonly { name: string; text: string }[] }) {
  const id = useId();
  const list = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState(0);
  const onKeyDown = (event: KeyboardEvent) => {
    const last = tabs.length - 1;
    const to = { ArrowRight: at === last ? 0 : at + 1, ArrowLeft: at === 0 ? last : at - 1, Home: 0, End: last }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    setAt(to);
    (list.current?.children[to] as HTMLElement | undefined)?.focus();
  };
  const { name, text } = tabs[at]!;
  return (
    <div className="grid gap-2">
      <div ref={list} role="tablist" aria-label={label} className="flex flex-wrap gap-1" onKeyDown={onKeyDown}>
        {tabs.map((tab, i) => (
          <button
            key={tab.name}
            type="button"
            role="tab"
            id={`${id}-${i}`}
            aria-selected={i === at}
            aria-controls={i === at ? `${id}-panel` : undefined}
            tabIndex={i === at ? 0 : -1}
            onClick={() => setAt(i)}
            className="rounded-md px-2.5 py-1 text-sm text-soft hover:text-ink aria-selected:bg-raised aria-selected:font-medium aria-selected:text-ink"
          >
            {tab.name}
          </button>
        ))}
      </div>
      <div role="tabpanel" id={`${id}-panel`} aria-labelledby={`${id}-${at}`}>
        <Code text={text} label={`Copy ${name}`} />
      </div>
    </div>
  );
}

/** Indents JSON; returns any other text unchanged. */
export function prettyJson(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
