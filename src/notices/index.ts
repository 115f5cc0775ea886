/** Notices to members and operators, and the emails that carry them. */
export { type MailTiming, readMailTiming, setMailTiming, startMails } from './digests.ts';
export { type Bound, exactly, forgetSent, mailLines, mailText, type NewMail, queueMails, readMailQueue, withdrawMails } from './mails.ts';
export { type AccountChange, isAlwaysMailed, isWarning, NOTICE_KINDS, type NoticeDetail, noticePath, noticeText } from './notice-kinds.ts';
export {
  listNoticeSettings,
  listNotices,
  type NewNotice,
  notifyMembers,
  notifyOperators,
  notifyUser,
  readNoticePulse,
  readNotices,
  setNoticeSetting,
} from './notices.ts';
export type { PaymentNotice } from './payment-notices.ts';
