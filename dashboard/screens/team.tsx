/** Members, invites, and whether two-factor authentication is required. */
import { type FormEvent, useState } from 'react';
import { type Role as MemberRole, ROLE_MEANS, ROLES } from '../generated/api.ts';
import type { Reply } from '../lib/api.ts';
import { useAct, useApi, useMay, useMe, useTitle } from '../lib/hooks.ts';
import { Button } from '../ui/button.tsx';
import { Ask, Dialog, Foot } from '../ui/dialog.tsx';
import { Field, Select } from '../ui/field.tsx';
import { ModeLink } from '../ui/link.tsx';
import { Card, Pending } from '../ui/states.tsx';
import { Badge, CopyButton, Time } from '../ui/values.tsx';
import { DepartureDialog } from './departure.tsx';

type Team = Reply<'GET /:mode/team'>;
type Member = Team['members'][number];
const REFRESHES = [['team'], ['audit']];
const ROLE_WORDS: Readonly<Record<MemberRole, string>> = {
  owner: 'Owner',
  admin: 'Admin',
  developer: 'Developer',
  finance: 'Finance',
  support: 'Support',
  viewer: 'Viewer',
};
/** They approve refunds and payouts, so only owners give and take them. */
const APPROVERS: readonly MemberRole[] = ['owner', 'finance'];
/** Whether you can give this role and take it. What you can't is hidden, because the server would refuse it. */
function useReach(): (role: MemberRole) => boolean {
  const mayManage = useMay('team.manage');
  const mayGiveAll = useMay('approvals.manage');
  return (role) => mayManage && (mayGiveAll || !APPROVERS.includes(role));
}
const optionsOf = (reach: (role: MemberRole) => boolean) => ROLES.filter(reach).map((value) => ({ value, label: ROLE_WORDS[value] }));
/** What ends on its own when a member loses a role. */
const ENDS_WITH = 'their pending invites, requested changes of wallets and destinations, and first approvals';

export function Screen() {
  useTitle('Team');
  const team = useApi('GET /:mode/team', ['team'], {});
  const may = useMay('team.manage');
  const [inviting, setInviting] = useState(false);
  return (
    <div className="grid gap-6">
      <div className="flex flex-wrap items-center justify-between gap-3">
        <div className="grid gap-1">
          <h1>Team</h1>
          <p className="text-soft">
            Every member has one role. <a href="/docs/reference/roles">What each role may do</a>
          </p>
        </div>
        {may && (
          <Button look="main" onClick={() => setInviting(true)}>
            Invite a teammate
          </Button>
        )}
      </div>
      {team.data ? (
        <>
          <Members members={team.data.members} />
          <Invites invites={team.data.invites} />
          <Required team={team.data} />
        </>
      ) : (
        <Card>
          <Pending of={team} />
        </Card>
      )}
      {inviting && <InviteDialog onClose={() => setInviting(false)} />}
    </div>
  );
}

function Members({ members }: { members: readonly Member[] }) {
  const me = useMe();
  const reach = useReach();
  const [removing, setRemoving] = useState<Member | null>(null);
  const [changing, setChanging] = useState<{ member: Member; role: MemberRole } | null>(null);
  const change = useAct('POST /:mode/team/members/:id/role', { refreshes: REFRESHES, done: 'Role updated.' });
  const remove = useAct('DELETE /:mode/team/members/:id', { refreshes: [...REFRESHES, ['me']], done: 'Member removed.' });
  const close = () => {
    setRemoving(null);
    setChanging(null);
    remove.reset();
    change.reset();
  };
  return (
    <Card title={`Members (${members.length})`}>
      <ul>
        {members.map((member) => {
          const mine = reach(member.role);
          return (
            <li key={member.id} className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-3 last:border-b-0">
              <div className="min-w-56 flex-1">
                <p className="flex flex-wrap items-center gap-2 font-medium">
                  <span className="break-words">{member.name}</span>
                  {member.id === me?.user.id && <Badge tone="calm">You</Badge>}
                </p>
                <p className="text-sm break-all text-soft">{member.email}</p>
                {!member.email_verified && <p className="text-sm text-soft">Email not verified</p>}
              </div>
              <Badge tone={member.has_second_factor ? 'good' : 'warn'} icon={member.has_second_factor ? 'check' : 'alert'}>
                {member.has_second_factor ? '2FA on' : '2FA off'}
              </Badge>
              <div className="flex items-center gap-2">
                {mine ? (
                  <Select
                    label={`Role of ${member.name}`}
                    value={member.role}
                    disabled={change.isPending}
                    options={optionsOf(reach)}
                    onChange={(event) => setChanging({ member, role: event.target.value as MemberRole })}
                  />
                ) : (
                  <span className="text-sm">{ROLE_WORDS[member.role]}</span>
                )}
                {mine && (
                  <Button look="danger" aria-label={`Remove ${member.name}`} onClick={() => setRemoving(member)}>
                    Remove
                  </Button>
                )}
              </div>
            </li>
          );
        })}
      </ul>
      {removing && (
        <DepartureDialog
          member={removing}
          title={`Remove ${removing.name}?`}
          text={`They lose access immediately, and ${ENDS_WITH} end. Their activity stays in the audit log.`}
          act="Remove"
          busy={remove.isPending}
          fault={remove.error?.message ?? null}
          onAct={(ends) => remove.mutate({ params: { id: removing.id }, body: { ends } }, { onSuccess: close })}
          onClose={close}
        />
      )}
      {changing && (
        <DepartureDialog
          member={changing.member}
          title={`Change the role of ${changing.member.name} to ${ROLE_WORDS[changing.role]}?`}
          text={`${ROLE_MEANS[changing.role]} What the new role doesn’t include ends: ${ENDS_WITH}.`}
          act="Change role"
          busy={change.isPending}
          fault={change.error?.message ?? null}
          onAct={(ends) => change.mutate({ params: { id: changing.member.id }, body: { role: changing.role, ends } }, { onSuccess: close })}
          onClose={close}
        />
      )}
    </Card>
  );
}

function Invites({ invites }: { invites: Team['invites'] }) {
  const reach = useReach();
  const revoke = useAct('DELETE /:mode/team/invites/:id', { refreshes: REFRESHES, done: 'Invite revoked.' });
  return (
    <Card title="Pending invites">
      {invites.length === 0 ? (
        <p className="px-4 py-6 text-sm text-soft">
          No pending invites. An invite link works once and expires after 7 days, or when the member who sent it leaves.
        </p>
      ) : (
        <ul>
          {invites.map((invite) => (
            <li key={invite.id} className="flex flex-wrap items-center gap-x-4 gap-y-2 border-b border-line px-4 py-3 last:border-b-0">
              <div className="min-w-0 flex-1">
                <p className="font-medium break-all">{invite.email}</p>
                <p className="text-sm text-soft">
                  {ROLE_WORDS[invite.role]} · invited by {invite.invited_by} · expires <Time at={invite.expires_at} />
                </p>
              </div>
              {reach(invite.role) && (
                <Button
                  aria-label={`Revoke the invite for ${invite.email}`}
                  onClick={() => revoke.mutate({ params: { id: invite.id }, body: {} })}
                >
                  Revoke
                </Button>
              )}
            </li>
          ))}
        </ul>
      )}
    </Card>
  );
}

function Required({ team }: { team: Team }) {
  const may = useMay('team.manage');
  const me = useMe();
  const [asked, setAsked] = useState(false);
  const set = useAct('POST /:mode/team/second-factor', { refreshes: REFRESHES, done: 'Saved.' });
  const lacking = team.members.filter((member) => !member.has_second_factor);
  const required = team.second_factor_required;
  return (
    <Card
      title="Require two-factor authentication"
      action={<Badge tone={required ? 'good' : 'calm'}>{required ? 'Required' : 'Not required'}</Badge>}
    >
      <div className="grid gap-3 p-4">
        <p className="text-soft">
          {required
            ? 'Members without two-factor authentication (2FA) can only open their Security page until they set it up.'
            : 'Require every member to set up an authenticator app and enter a code when they sign in with a password.'}
        </p>
        {lacking.length > 0 ? (
          <p className="text-sm">
            <span className="text-soft">Not set up yet: </span>
            {lacking.map((member) => member.name).join(', ')}
          </p>
        ) : (
          <p className="text-sm text-good">Every member has set it up.</p>
        )}
        {may && (
          <div>
            <Button
              busy={set.isPending}
              disabled={!required && !me?.user.has_second_factor}
              onClick={() => (required ? set.mutate({ body: { required: false } }) : setAsked(true))}
            >
              {required ? 'Stop requiring 2FA' : 'Require 2FA'}
            </Button>
            {!required && !me?.user.has_second_factor && (
              <p className="pt-2 text-sm text-soft">
                Set up your own first, under{' '}
                <ModeLink to="security" className="underline">
                  Security
                </ModeLink>
                .
              </p>
            )}
          </div>
        )}
      </div>
      <Ask
        open={asked}
        onClose={() => setAsked(false)}
        title="Require two-factor authentication?"
        text={
          lacking.length > 0
            ? `${lacking.map((member) => member.name).join(', ')} can only open their Security page until they set it up.`
            : 'Every member has already set it up.'
        }
        act="Require 2FA"
        onAct={() => {
          setAsked(false);
          set.mutate({ body: { required: true } });
        }}
      />
    </Card>
  );
}

function InviteDialog({ onClose }: { onClose: () => void }) {
  const reach = useReach();
  const invite = useAct('POST /:mode/team/invites', { refreshes: REFRESHES });
  const [email, setEmail] = useState('');
  const [role, setRole] = useState<MemberRole>('viewer');
  const submit = (event: FormEvent) => {
    event.preventDefault();
    invite.mutate({ body: { email, role } });
  };
  if (invite.data) {
    return (
      <Dialog open onClose={onClose} title={invite.data.url === null ? 'Invite sent' : 'Copy the invite link'}>
        {invite.data.url === null ? (
          <p className="text-soft">
            We emailed a link to <span className="break-all">{invite.data.invite.email}</span>. It works once and expires in 7 days.
          </p>
        ) : (
          <>
            <p className="text-soft">
              No mail server is set up, so send this link to <span className="break-all">{invite.data.invite.email}</span> yourself, over a
              private channel: anyone who opens it can take the account. It works once and expires in 7 days, and you won’t see it again.
            </p>
            <p className="flex items-center gap-2 rounded-lg bg-raised p-3 text-sm">
              <code className="min-w-0 break-all">{invite.data.url}</code>
              <CopyButton value={invite.data.url} label="Copy link" />
            </p>
          </>
        )}
        <Button look="main" onClick={onClose}>
          Done
        </Button>
      </Dialog>
    );
  }
  return (
    <Dialog open onClose={onClose} title="Invite a teammate">
      <form onSubmit={submit} className="grid gap-4">
        <Field
          label="Email"
          type="email"
          autoComplete="off"
          required
          value={email}
          onChange={(e) => setEmail(e.target.value)}
          hint="The invite link is for this address. Keep it private: the first person who opens it can join."
          fault={invite.error?.message}
        />
        <div className="grid gap-1.5">
          <span className="text-sm font-medium">Role</span>
          <Select label="Role" value={role} options={optionsOf(reach)} onChange={(e) => setRole(e.target.value as MemberRole)} />
          <p className="text-sm text-soft">
            {ROLE_MEANS[role]}{' '}
            <a href="/docs/reference/roles" target="_blank" rel="noreferrer" className="underline">
              What each role may do
            </a>
          </p>
        </div>
        <Foot onBack={onClose}>
          <Button type="submit" look="main" busy={invite.isPending}>
            Send invite
          </Button>
        </Foot>
      </form>
    </Dialog>
  );
}
