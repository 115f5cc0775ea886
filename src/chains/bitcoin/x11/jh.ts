/** JH-512 of a message of 64 bytes, in the bit-sliced form of its specification: eight rows of 128 bits. */

const ROUNDS = 42;
/** The constants of the rounds, 256 bits each, two rounds a line. */
const CONSTANTS = [
  '72d5dea2df15f8677b84150ab723155781abd6904d5a87f64e9f4fc5c3d12b40ea983ae05c45fa9c03c5d29966b2999a660296b4f2bb538ab556141a88dba231',
  '03a35a5c9a190edb403fb20a87c144101c051980849e951d6f33ebad5ee7cddc10ba139202bf6b41dc786515f7bb27d00a2c813937aa78503f1abfd2410091d3',
  '422d5a0df6cc7e90dd629f9c92c097ce185ca70bc72b44acd1df65d663c6fc23976e6c039ee0b81a2105457e446ceca8eef103bb5d8e61fafd9697b294838197',
  '4a8e8537db03302f2a678d2dfb9f6a958afe7381f8b8696c8ac77246c07f4214c5f4158fbdc75ec475446fa78f11bb8052de75b7aee488bc82b8001e98a6a3f4',
  '8ef48f33a9a36315aa5f5624d5b7f989b6f1ed207c5ae0fd36cae95a06422c36ce2935434efe983d533af974739a4ba7d0f51f596f4e81860e9dad81afd85a9f',
  'a7050667ee34626a8b0b28be6eb9172747740726c680103fe0a07e6fc67e487b0d550aa54af8a4c091e3e79f978ef19e8676728150608dd47e9e5a41f3e5b062',
  'fc9f1fec4054207ae3e41a00cef4c9844fd794f59dfa95d8552e7e1124c354a55bdf7228bdfe6e2878f57fe20fa5c4b205897cefee49d32e447e9385eb28597f',
  '705f6937b324314a5e8628f11dd6e465c71b770451b920e774fe43e823d4878a7d29e8a3927694f2ddcb7a099b30d9c11d1b30fb5bdc1be0da24494ff29c82bf',
  'a4e7ba31b470bfff0d324405def8bc483baefc3253bbd339459fc3c1e0298ba0e5c905fdf7ae090f947034124290f134a271b701e344ed95e93b8e364f2f984a',
  '88401d63a06cf61547c1444b8752afff7ebb4af1e20ac6304670b6c5cc6e8ce6a4d5a456bd4fca00da9d844bc83e18ae7357ce453064d1ade8a6ce68145c2567',
  'a3da8cf2cb0ee11633e906589a94999a1f60b220c26f847bd1ceac7fa0d1851832595ba18ddd19d3509a1cc0aaa5b4469f3d6367e4046bbaf6ca19ab0b56ee7e',
  '1fb179eaa9282174e9bdf7353b3651ee1d57ac5a7550d3763a46c2fea37d7001f735c1af98a4d84278edec209e6b677941836315ea3adba8fac33b4d32832c83',
  'a7403b1f1c2747f35940f034b72d769ae73e4e6cd2214ffdb8fd8d39dc5759ef8d9b0c492b49ebda5ba2d74968f3700d7d3baed07a8d5584f5a5e9f0e4f88e65',
  'a0b8a2f436103b530ca8079e753eec5a9168949256e8884f5bb05c55f8babc4ce3bb3b99f387947b75daf4d6726b1c5d64aeac28dc34b36d6c34a550b828db71',
  'f861e2f2108d512ae3db643359dd75fc1cacbcf143ce3fa267bbd13c02e843b0330a5bca8829a1757f34194db416535c923b94c30e794d1e797475d7b6eeaf3f',
  'eaa8d4f7be1a39215cf47e094c23275126a32453ba323cd244a3174a6da6d5adb51d3ea6aff2c90883593d98916b3c564cf87ca17286604d46e23ecc086ec7f6',
  '2f9833b3b1bc765e2bd666a5efc4e62a06f4b6e8bec1d43674ee8215bcef2163fdc14e0df453c969a77d5ac4065858267ec1141606e0fa167e90af3d28639d3f',
  'd2c9f2e3009bd20c5faace30b7d40c30742a5116f2e032980deb30d8e3cef89a4bc59e7bb5f17992ff51e66e048668d39b234d57e6966731cce6a6f3170a7505',
  'b17681d913326cce3c175284f805a262f42bcbb378471547ff46548223936a4838df58074e5e6565f2fc7c89fc86508e31702e44d00bca86f04009a23078474e',
  '65a0ee39d1f73883f75ee937e42c3abd2197b2260113f86fa344edd1ef9fdee78ba0df15762592d93c85f7f612dc42bed8a7ec7cab27b07e538d7ddaaa3ea8de',
  'aa25ce93bd0269d85af643fd1a7308f9c05fefda174a19a5974d66334cfd216a35b49831db411570ea1e0fbbedcd549b9ad063a151974072f6759dbf91476fe2',
].join('');
const C = Int32Array.from({ length: 8 * ROUNDS }, (_, i) => Number.parseInt(CONSTANTS.slice(8 * i, 8 * i + 8), 16));
/** Rounds 0 to 4 of seven swap neighboring groups of bits; the masks select one group of each pair. */
const MASKS = [0x55555555, 0x33333333, 0x0f0f0f0f, 0x00ff00ff, 0x0000ffff] as const;

/** The eight rows, four words each. */
const x = new Int32Array(32);

/** The S-boxes of one word of the rows `a`, `a + 2`, `a + 4` and `a + 6`, chosen by the round constant. */
function substitute(at: number, c: number): void {
  let x0 = x[at]!;
  let x1 = x[at + 8]!;
  let x2 = x[at + 16]!;
  let x3 = ~x[at + 24]!;
  x0 ^= c & ~x2;
  const t = c ^ (x0 & x1);
  x0 ^= x2 & x3;
  x3 ^= ~x1 & x2;
  x1 ^= x0 & x2;
  x2 ^= x0 & ~x3;
  x0 ^= x1 | x3;
  x3 ^= x1 & x2;
  x1 ^= t & x0;
  x2 ^= t;
  x[at] = x0;
  x[at + 8] = x1;
  x[at + 16] = x2;
  x[at + 24] = x3;
}
/** The linear transformation of one word of all rows. */
function mix(at: number): void {
  x[at + 4]! ^= x[at + 8]!;
  x[at + 12]! ^= x[at + 16]!;
  x[at + 20]! ^= x[at + 24]! ^ x[at]!;
  x[at + 28]! ^= x[at]!;
  x[at]! ^= x[at + 12]!;
  x[at + 8]! ^= x[at + 20]!;
  x[at + 16]! ^= x[at + 28]! ^ x[at + 4]!;
  x[at + 24]! ^= x[at + 4]!;
}
/** The permutation of an odd row, which differs between seven rounds. */
function swap(row: number, kind: number): void {
  if (kind < 5) {
    const mask = MASKS[kind]!;
    const by = 1 << kind;
    for (let i = row; i < row + 4; i++) x[i] = ((x[i]! >>> by) & mask) | ((x[i]! & mask) << by);
    return;
  }
  const [x0, x1, x2, x3] = [x[row]!, x[row + 1]!, x[row + 2]!, x[row + 3]!];
  x.set(kind === 5 ? [x1, x0, x3, x2] : [x2, x3, x0, x1], row);
}
function permute(): void {
  for (let round = 0; round < ROUNDS; round++) {
    for (let i = 0; i < 4; i++) {
      substitute(i, C[8 * round + i]!);
      substitute(4 + i, C[8 * round + 4 + i]!);
      mix(i);
    }
    for (let row = 4; row < 32; row += 8) swap(row, round % 7);
  }
}
function chain(block: Int32Array): void {
  for (let i = 0; i < 16; i++) x[i]! ^= block[i]!;
  permute();
  for (let i = 0; i < 16; i++) x[16 + i]! ^= block[i]!;
}

/** The state before a message: the length of the result, and one block of zeros. */
x[0] = 512 << 16;
chain(new Int32Array(16));
const START = x.slice();
/** A one bit, and the length of the message in bits. */
const PADDING = new Int32Array(16);
PADDING[0] = 0x80000000;
PADDING[15] = 512;
const block = new Int32Array(16);

export function jh512(message: Buffer): Buffer {
  x.set(START);
  for (let i = 0; i < 16; i++) block[i] = message.readInt32BE(4 * i);
  chain(block);
  chain(PADDING);
  const out = Buffer.allocUnsafe(64);
  for (let i = 0; i < 16; i++) out.writeInt32BE(x[16 + i]!, 4 * i);
  return out;
}
