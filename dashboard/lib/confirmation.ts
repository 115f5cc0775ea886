/** Asking somebody to confirm that it is them; the dialog itself is in the shell. */
import { createStore } from './store.ts';

export const confirmation = createStore<((confirmed: boolean) => void) | null>(null);

/** Opens the prompt; true once the second factor or the password was right. */
export const askConfirmation = (): Promise<boolean> =>
  new Promise((resolve) => {
    confirmation.get()?.(false);
    confirmation.set((confirmed) => {
      confirmation.set(null);
      resolve(confirmed);
    });
  });
