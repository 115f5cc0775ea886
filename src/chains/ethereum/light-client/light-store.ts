/** What a light client knows, in the database: with it, a restart needs no checkpoint. Only what was proven is stored. */
import type { Db } from '../../../db/db.ts';
import type { LightState, ProvenHead } from './light-client.ts';
import type { SyncCommittee } from './sync-committee.ts';

/** `halted`: why nothing may complete until an operator chooses another checkpoint. */
export type StoredLight = { checkpoint: string; state: LightState; halted: string | null };
type Row = {
  checkpoint: string;
  finalizedSlot: string;
  finalizedRoot: string;
  finalizedHash: string;
  optimisticSlot: string;
  optimisticRoot: string;
  optimisticHash: string;
  current: Buffer;
  next: Buffer | null;
  halted: string | null;
};

const KEY_BYTES = 48;
/** All keys, and then their sum. */
const bytesOf = ({ keys, aggregate }: SyncCommittee): Buffer => Buffer.concat([...keys, aggregate]);
function committeeOf(bytes: Buffer): SyncCommittee {
  const all = Array.from(
    { length: bytes.length / KEY_BYTES },
    (_, i) => new Uint8Array(bytes.subarray(i * KEY_BYTES, (i + 1) * KEY_BYTES)),
  );
  return { keys: all.slice(0, -1), aggregate: all.at(-1)! };
}
const headOf = (slot: string, root: string, executionHash: string): ProvenHead => ({ slot: Number(slot), root, executionHash });

/** Null when nothing is stored for the network. */
export async function loadLight(db: Db, network: string): Promise<StoredLight | null> {
  const [row] = await db.sql<Row[]>`
    select checkpoint, halted, current_committee as current, next_committee as next,
      finalized_slot::text as "finalizedSlot", finalized_root as "finalizedRoot", finalized_hash as "finalizedHash",
      optimistic_slot::text as "optimisticSlot", optimistic_root as "optimisticRoot", optimistic_hash as "optimisticHash"
    from light_clients where network = ${network}`;
  if (!row) return null;
  return {
    checkpoint: row.checkpoint,
    halted: row.halted,
    state: {
      finalized: headOf(row.finalizedSlot, row.finalizedRoot, row.finalizedHash),
      optimistic: headOf(row.optimisticSlot, row.optimisticRoot, row.optimisticHash),
      current: committeeOf(row.current),
      next: row.next && committeeOf(row.next),
    },
  };
}

/**
 * Stores the state, unless another process stored a newer one from the same checkpoint. A halt stays until the checkpoint is replaced.
 */
export async function saveLight(db: Db, network: string, { checkpoint, state, halted }: StoredLight): Promise<void> {
  const { finalized, optimistic, current, next } = state;
  await db.sql`
    insert into light_clients as stored (network, checkpoint, finalized_slot, finalized_root, finalized_hash, optimistic_slot, optimistic_root,
      optimistic_hash, current_committee, next_committee, halted, updated_at)
    values (${network}, ${checkpoint}, ${finalized.slot}, ${finalized.root}, ${finalized.executionHash}, ${optimistic.slot}, ${optimistic.root},
      ${optimistic.executionHash}, ${bytesOf(current)}, ${next && bytesOf(next)}, ${halted}, clock_timestamp())
    on conflict (network) do update set
      checkpoint = excluded.checkpoint, finalized_slot = excluded.finalized_slot, finalized_root = excluded.finalized_root,
      finalized_hash = excluded.finalized_hash, optimistic_slot = excluded.optimistic_slot, optimistic_root = excluded.optimistic_root,
      optimistic_hash = excluded.optimistic_hash, current_committee = excluded.current_committee,
      next_committee = excluded.next_committee, updated_at = excluded.updated_at,
      halted = case when stored.checkpoint = excluded.checkpoint then coalesce(stored.halted, excluded.halted) else excluded.halted end
    where stored.checkpoint <> excluded.checkpoint or excluded.halted is not null
      or (excluded.finalized_slot, excluded.optimistic_slot) >= (stored.finalized_slot, stored.optimistic_slot)`;
}
