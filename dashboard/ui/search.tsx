/** The search box above a list. Searches on Enter; clearing it clears the search. */
import { type FormEvent, useState } from 'react';

export function SearchBox({
  label,
  placeholder,
  maxLength,
  value,
  onSearch,
}: {
  label: string;
  placeholder: string;
  maxLength?: number;
  value: string;
  onSearch(text: string): void;
}) {
  const [text, setText] = useState(value);
  const submit = (event: FormEvent) => {
    event.preventDefault();
    onSearch(text.trim());
  };
  return (
    <search className="min-w-60 flex-1">
      <form onSubmit={submit}>
        <input
          type="search"
          aria-label={label}
          aria-keyshortcuts="/"
          placeholder={placeholder}
          maxLength={maxLength}
          value={text}
          onChange={(event) => {
            setText(event.target.value);
            if (event.target.value === '') onSearch('');
          }}
          className="min-h-9 w-full rounded-lg border border-line bg-card px-3 py-1.5 text-sm text-ink placeholder:text-soft"
        />
      </form>
    </search>
  );
}
