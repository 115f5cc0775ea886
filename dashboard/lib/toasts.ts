/** Short messages about finished actions. Screen readers announce them; they disappear after six seconds. */
import { createStore } from './store.ts';

export type Toast = { id: number; text: string; tone: 'good' | 'bad' };
export const toasts = createStore<readonly Toast[]>([]);
let next = 1;

export function say(text: string, tone: Toast['tone'] = 'good'): void {
  const id = next++;
  toasts.set([...toasts.get(), { id, text, tone }]);
  setTimeout(() => toasts.set(toasts.get().filter((toast) => toast.id !== id)), 6_000);
}
