/** The language of the dashboard in this browser. */
import { useTitle } from '../lib/hooks.ts';
import { LanguageChoice } from '../ui/language.tsx';
import { Card } from '../ui/states.tsx';

export function Screen() {
  useTitle('Language');
  return (
    <div className="grid max-w-3xl gap-6">
      <h1>Language</h1>
      <Card title="Language of the dashboard">
        <div className="grid gap-3 p-4">
          <div>
            <LanguageChoice />
          </div>
          <p className="text-sm text-soft">
            Applies to this browser, also when you sign in. Amounts and times are written as usual in the language. Error messages of the
            service, emails and guides are in English.
          </p>
        </div>
      </Card>
    </div>
  );
}
