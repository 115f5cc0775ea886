/** A block of code or data that wraps, scrolls by keyboard too, and has a copy button. */
import { useId } from 'react';
import { CopyButton } from '../../ui/values.tsx';

export function Code({ label, text, tall = false }: { label: string; text: string; tall?: boolean }) {
  const id = useId();
  return (
    <div className="grid gap-1">
      <p className="flex items-center justify-between gap-2 text-sm font-medium">
        <span id={id}>{label}</span>
        <CopyButton value={text} label={`Copy: ${label}`} />
      </p>
      <section
        // biome-ignore lint/a11y/noNoninteractiveTabindex: scrollable content must be reachable by keyboard
        tabIndex={0}
        aria-labelledby={id}
        className={`overflow-auto rounded-lg bg-raised p-3 ${tall ? 'max-h-96' : 'max-h-56'}`}
      >
        <pre className="font-mono text-xs break-all whitespace-pre-wrap">{text}</pre>
      </section>
    </div>
  );
}

/** Indents JSON; returns any other text unchanged. */
export function readable(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
