/** The choice of the dashboard's language, each named in itself. */
import { chooseLanguage, LANGUAGES, type LanguageTag, language } from '../lib/language.ts';
import { Select } from './field.tsx';

const OPTIONS = Object.entries(LANGUAGES).map(([value, label]) => ({ value, label }));

export const LanguageChoice = () => (
  <Select label="Language" options={OPTIONS} value={language} onChange={(event) => chooseLanguage(event.target.value as LanguageTag)} />
);
