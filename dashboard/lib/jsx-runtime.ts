/**
 * What JSX becomes in this app: React's elements, in which every text has an element of its own, and identifiers and figures are not
 * translated. A browser's translator puts other nodes in place of texts. React still writes into the nodes that it made, so a text
 * beside other nodes would stay as it was; the whole content of an element is replaced correctly.
 */
import type { ElementType, Key, ReactNode } from 'react';
import { jsx as element, jsxs as elements, Fragment } from 'react/jsx-runtime';

export type { JSX } from 'react/jsx-runtime';
export { Fragment };

type Props = { children?: ReactNode; className?: unknown; translate?: string };
const isText = (child: ReactNode): child is string | number | bigint =>
  typeof child === 'string' || typeof child === 'number' || typeof child === 'bigint';
const isNothing = (child: ReactNode): boolean => child == null || typeof child === 'boolean' || child === '';
/** Inside of these no element may be put around a text. */
const TEXT_ONLY: ReadonlySet<ElementType> = new Set(['option', 'title', 'textarea', 'style']);
const IN_DRAWINGS: ReadonlySet<ElementType> = new Set(['text', 'tspan']);
/** Identifiers, and figures of equal width. */
const AS_WRITTEN = /\b(?:font-mono|tabular-nums)\b/;
const isAsWritten = (type: ElementType, { className }: Props): boolean =>
  type === 'code' || type === 'time' || (typeof type === 'string' && typeof className === 'string' && AS_WRITTEN.test(className));

/** Neighboring texts become one; beside anything else, it gets an element. Others keep their places, by which React knows them. */
function withOwnElements(type: ElementType, children: readonly ReactNode[], isList: boolean): ReactNode {
  if (children.every((child) => isText(child) || isNothing(child))) {
    const text = children.filter(isText).join('');
    return type === Fragment ? element('span', { children: text }) : text;
  }
  if (TEXT_ONLY.has(type)) return children as ReactNode[];
  const wrapper = IN_DRAWINGS.has(type) ? 'tspan' : 'span';
  const result: ReactNode[] = [];
  let run = -1;
  let text = '';
  const close = () => {
    if (run >= 0 && text !== '') result[run] = element(wrapper, { children: text }, isList ? `text ${run}` : undefined);
    run = -1;
    text = '';
  };
  children.forEach((child, i) => {
    if (isText(child)) {
      if (run < 0) run = i;
      text += child;
      result[i] = null;
      return;
    }
    if (!isNothing(child)) close();
    result[i] = Array.isArray(child) ? asOwnElements(type, child) : child;
  });
  close();
  return result;
}
/** A list inside of others: its texts are beside them too. */
const asOwnElements = (type: ElementType, list: readonly ReactNode[]): ReactNode => {
  const own = withOwnElements(type, list, true);
  return isText(own) && own !== '' && !TEXT_ONLY.has(type) ? element(IN_DRAWINGS.has(type) ? 'tspan' : 'span', { children: own }) : own;
};

function prepared(type: ElementType, props: Props): Props {
  const { children } = props;
  const translate = isAsWritten(type, props) && props.translate === undefined ? { translate: 'no' } : null;
  if (Array.isArray(children)) return { ...props, ...translate, children: withOwnElements(type, children, false) };
  if (type === Fragment && isText(children)) return { ...props, children: element('span', { children }) };
  return translate === null ? props : { ...props, ...translate };
}

export const jsx = (type: ElementType, props: Props, key?: Key) => element(type, prepared(type, props), key);
export const jsxs = (type: ElementType, props: Props, key?: Key) => {
  const given = prepared(type, props);
  return (Array.isArray(given.children) ? elements : element)(type, given, key);
};
