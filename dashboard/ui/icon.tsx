/** Line icons of 20 px, each one path. */
const PATHS = {
  payments: 'M3 6.5h14M3 5.5A1.5 1.5 0 0 1 4.5 4h11A1.5 1.5 0 0 1 17 5.5v9a1.5 1.5 0 0 1-1.5 1.5h-11A1.5 1.5 0 0 1 3 14.5zM6 12.5h3',
  home: 'M3.5 9 10 3.5 16.5 9v7.5h-4.500v-4h-4v4h-4.500z',
  alert: 'M10 6.500v4.500m0 2.500v.1M10 3l7.500 13.500h-15z',
  link: 'M8.500 11.500a3 3 0 0 0 4.200 0l2.500-2.500a3 3 0 0 0-4.200-4.200l-1 1m1.500 2.700a3 3 0 0 0-4.200 0l-2.500 2.500a3 3 0 0 0 4.200 4.200l1-1',
  wallet: 'M3.500 6v9a1.500 1.500 0 0 0 1.500 1.500h11.500v-9h-12A1.500 1.500 0 0 1 3.500 6c0-.800.700-1.500 1.500-1.500h9.500m-1 7.500h.1',
  code: 'm7 6-4 4 4 4m6-8 4 4-4 4',
  report: 'M4 16.500v-5m4 5v-9m4 9v-6m4 6v-12',
  settings: 'M4 6h7m4 0h1M4 14h1m4 0h7M13 4v4M7 12v4',
  shield: 'm10 3 6 2v5c0 3.500-2.500 6-6 7-3.500-1-6-3.500-6-7V5z',
  people:
    'M7.500 9.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zm-5 6.500c0-2.500 2.200-4 5-4s5 1.500 5 4m0-11.500a2.500 2.500 0 0 1 0 5m1.500 2.700c2 .4 3.500 1.800 3.500 3.800',
  key: 'M9.500 10.500 16.500 3.500m-2.500 2.500 2 2m-4 0 1.500 1.500M9.800 13.200a3.200 3.200 0 1 1-6.400 0 3.200 3.200 0 0 1 6.400 0z',
  bolt: 'M11 3 4.500 11.500H10l-1 5.500 6.500-8.500H10z',
  log: 'M7.500 5.500h9m-9 4.500h9m-9 4.500h9M3.500 5.500h.1m-.1 4.500h.1m-.1 4.500h.1',
  menu: 'M3 6h14M3 10h14M3 14h14',
  close: 'm5 5 10 10M15 5 5 15',
  copy: 'M7.500 7.500v-3h8v8h-3m-8-5h8v8h-8z',
  check: 'm4.500 10.500 3.500 3.500 7.500-8',
  clock: 'M10 6v4.500l3 1.500m4-2a7 7 0 1 1-14 0 7 7 0 0 1 14 0z',
  cross: 'M7 7l6 6m0-6-6 6m10-3a7 7 0 1 1-14 0 7 7 0 0 1 14 0z',
  dots: 'M5 10h.1M10 10h.1M15 10h.1',
  arrow: 'M4 10h11m-4-4 4 4-4 4',
  person: 'M10 10a3 3 0 1 0 0-6 3 3 0 0 0 0 6zm-6 6.500c0-3 2.700-4.500 6-4.500s6 1.500 6 4.500',
} as const;
export type IconName = keyof typeof PATHS;

export const Icon = ({ name, className = 'size-5' }: { name: IconName; className?: string }) => (
  <svg
    viewBox="0 0 20 20"
    fill="none"
    stroke="currentColor"
    strokeWidth="1.5"
    strokeLinecap="round"
    strokeLinejoin="round"
    className={`shrink-0 ${className}`}
    aria-hidden="true"
  >
    <path d={PATHS[name]} />
  </svg>
);
