/** Looks up texts in the words of the page's language. The build puts these calls in place of texts; see dashboard/texts.ts. */
import type { ReactElement, ReactNode } from 'react';
import { jsx } from './jsx-runtime.ts';
import { words } from './language.ts';

/** A text with its blanks filled. */
export function $text(key: string, ...args: readonly unknown[]): string {
  const text = words[key] ?? key;
  return args.length === 0 ? text : text.replace(/\{(\d+)\}/g, (_, i: string) => String(args[Number(i)]));
}

type Part = string | { blank: number } | { element: number; parts: Part[] };
const parsed = new Map<string, Part[]>();
function partsIn(text: string): Part[] {
  const known = parsed.get(text);
  if (known) return known;
  const parts: Part[] = [];
  const open = [parts];
  for (const piece of text.split(/(\{\d+\}|<\/?\d+>)/)) {
    const mark = /^(?:\{(\d+)\}|<(\d+)>|<\/\d+>)$/.exec(piece);
    if (!mark) {
      if (piece !== '') open.at(-1)!.push(piece);
    } else if (mark[1] !== undefined) open.at(-1)!.push({ blank: Number(mark[1]) });
    else if (mark[2] !== undefined) {
      const inner: Part[] = [];
      open.at(-1)!.push({ element: Number(mark[2]), parts: inner });
      open.push(inner);
    } else if (open.length > 1) open.pop();
  }
  parsed.set(text, parts);
  return parts;
}
const fill = (parts: readonly Part[], args: readonly ReactNode[]): ReactNode[] =>
  parts.map((part) => {
    if (typeof part === 'string') return part;
    if ('blank' in part) return args[part.blank];
    const { type, props, key } = args[part.element] as ReactElement<object>;
    return jsx(type as never, { ...props, children: asChildren(fill(part.parts, args)) }, key ?? undefined);
  });
const asChildren = (nodes: ReactNode[]): ReactNode => (nodes.length === 1 && typeof nodes[0] === 'string' ? nodes[0] : nodes);

/** A text whose blanks are filled with nodes, and whose elements have their texts in them. */
export function $nodes(key: string, ...args: readonly ReactNode[]): ReactNode {
  const text = words[key] ?? key;
  return args.length === 0 ? text : asChildren(fill(partsIn(text), args));
}
