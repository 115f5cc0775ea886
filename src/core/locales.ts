/** The languages in which customers are addressed, and which one a tag means. */

/** Every language by its tag (BCP 47), named as its speakers name it. */
export const LOCALES = {
  en: 'English',
  de: 'Deutsch',
  es: 'Español',
  fr: 'Français',
  it: 'Italiano',
  'pt-BR': 'Português (Brasil)',
  nl: 'Nederlands',
  pl: 'Polski',
  tr: 'Türkçe',
  ru: 'Русский',
  uk: 'Українська',
  ja: '日本語',
  ko: '한국어',
  'zh-CN': '简体中文',
  'zh-TW': '繁體中文',
  ar: 'العربية',
  he: 'עברית',
  hi: 'हिन्दी',
  id: 'Bahasa Indonesia',
  vi: 'Tiếng Việt',
} as const;
export type Locale = keyof typeof LOCALES;

export const TAGS = Object.keys(LOCALES) as Locale[];

/** The tag of ours that a tag asks for; null when we have none. Chinese by its script, old codes by their new names (BCP 47). */
export function matchLocale(asked: string): Locale | null {
  const text = asked.trim().replaceAll('_', '-').toLowerCase();
  const exact = TAGS.find((tag) => tag.toLowerCase() === text);
  if (exact) return exact;
  const [base] = text.split('-');
  if (base === 'zh') return /-(hant|tw|hk|mo)\b/.test(text) ? 'zh-TW' : 'zh-CN';
  if (base === 'pt') return 'pt-BR';
  if (base === 'iw') return 'he';
  if (base === 'in') return 'id';
  return TAGS.find((tag) => tag === base) ?? null;
}
