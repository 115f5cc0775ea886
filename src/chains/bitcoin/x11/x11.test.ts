/** X11 and its parts against recorded Dash headers and the values that the submissions of its hash functions publish. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { headersOf, sample } from '../../../../test/kit/headers.ts';
import { showHash } from '../header.ts';
import { echo512, groestl512, S_BOX, shavite512 } from './aes.ts';
import { bmw512 } from './bmw.ts';
import { jh512 } from './jh.ts';
import { luffa512 } from './luffa.ts';
import { simd512 } from './simd.ts';
import { skein512 } from './skein.ts';
import { cubehash512, x11 } from './x11.ts';

test('the X11 hash of a recorded header is what the next header names as its parent', () => {
  const headers = headersOf('dash-main-999900.hex');
  for (const [i, header] of sample(headers.slice(0, -1), 20).entries()) {
    const next = headers[20 * i + 1]!;
    assert.equal(x11(header).toString('hex'), next.subarray(4, 36).toString('hex'), `block ${999_900 + 20 * i}`);
  }
  assert.equal(showHash(x11(headersOf('dash-block-844898.hex')[0]!.subarray(0, 80))).slice(0, 8), '00000000');
});

test('each function hashes 64 bytes of zeros and of ones to a fixed value, and does not change its input', () => {
  // Computed with another implementation, of the Dash project.
  const stated = {
    bmw512: [
      '1d020a0d650d43050d966a4d055d1960604bf634eba6b072f085592293a08b665c25092c8801641fbec7abde9e710bc3ddc98ee69efd4cbcd6c3e82aff0b654b',
      'efe61784ae831d1a817f1d998ce8194c1e8ea4f74cb77f76a977fe29f698e506ca940ab3413af04760390e86473a216510478eb1d17e1faf9faf0e41a58b7ccf',
    ],
    groestl512: [
      '5a1ddfc31c15994e32cb26d466a2aa0d89d1e6452455eeb1353b203a3169fa9714efe83962c41a670a051ceb5fbba1128f2a288c4adcba70a0aaf4195ed6eb41',
      '3a2e8a048558dc5965c7a46e49955791d5a977195243e52bda69d7f95d88af5bd996fa1c79a51e0e682f91f000432b9919a12293918ccd83a73fee575745978b',
    ],
    skein512: [
      '33f7457de06569e7cf5fd1edd50ccfe1d5f166429e75ddbe54a5b7e247030dd912f0dc5ab6012f59ce9203abd82b316df67d5c6f009a18ba84db030146da99db',
      'fd4a92cbc8e3db82f2138e310e46067f64f74771a8faafc239fb922b90a1498c91a359232cced0a6d74c5c1f87c7010e013d83861bde717d9c8080600e30c1d5',
    ],
    jh512: [
      '511dbfd91df89b720c7b9a209cedd0e0dc86feb104e8d662bcb592b19f5bb301294c7f31fa602b5827a11ec560d9ca8ddf8097ac48fb977999873aaac53474c0',
      '5ab11a01e8f74e27a6fa0a8f7e07a357a9458b9cdd4fabc11373202c7405c9030577dcb20b15c2e7a24be556cd24d8bcd24c62b519fa170b834b7abbdd3d3718',
    ],
    luffa512: [
      '2ee74681f3a31e89c4a67ee6adceab4f82d8c0f9ed18b345d2f0ef6f55111ba0399eea4fccd0834fd61c70cfe9088ed84e09bec1d64c993ae064351c8740d2bf',
      '38cf6c04e807acc55e876dcb4bc6d4a6a2270ba61071079749113e189f75dee1420fb24684df03e24a03b4aa48627d1264fe0a9b820d406057f80ac0d25a4cd7',
    ],
    cubehash512: [
      '7c94bde03efa0833e7f4f7e5460ca61625bbaa6ee9ea694a65caea30461818bf092a80c0c0be51785a81db7b2ef4d13b246566e1e909996925ac2822c3254c87',
      '9e30218d0e482cecf63e603c76e92d15cfaa2729145a772155f5fd8bea4e5dd8e3b39c006fac405c54a8959640c38b59164b27ed1f37e7d644ff934aaa245946',
    ],
    shavite512: [
      '5258bbba2322dab1d6ff7306c6e51711542ddbf047a9f979e167b609f836ce3c3931c607127649e7445c5cfc395a4ca2fdcbb335ccc5d84297608c4ef7af777c',
      '78c9d8f00d621fa2a22b16cce7ae88c8059559c6b6d583dcc7568a01277342887d02578549936b452e5bdb849e091089edea0c2d38fc1c4f0c16ba2793ea5c35',
    ],
    simd512: [
      '6e126736de2303233016911810d61d7d1535f39b196d73d5081937592308bd6eeb706d473be432faae47cff201c67ba6e0a00ac90722fbd477a005ee065ea151',
      'adcab02f6174a6a96282e16de3d358fc2d4878cf9b77f0cbe679a2c2bfd7f344329392c23917503966f356e4455fc11fc27b2ee4c43eed20dd37db9c5df9807f',
    ],
    echo512: [
      'b94c65978be9a6dd6c6f12b6ef6146cfc5b39e585d824b6bc92d438f28df8586a29d4b1a14de064ce3f67ca27caad4ed35d80a8ad28b85a002647123dc4a98c2',
      '7559c48f9532fc13a6fdafaeed30812c861b5bb13a5e3929b39ee33090dfba1db69b681fcd92eecb96a3dc674b1917a6090206f39b8fef3330325621814b8950',
    ],
  };
  for (const [name, hash] of Object.entries({
    bmw512,
    groestl512,
    skein512,
    jh512,
    luffa512,
    cubehash512,
    shavite512,
    simd512,
    echo512,
  })) {
    for (const [i, byte] of [0, 0xff].entries()) {
      const input = Buffer.alloc(64, byte);
      assert.equal(hash(input).toString('hex'), stated[name as keyof typeof stated][i], `${name} of bytes ${byte}`);
      assert.deepEqual(input, Buffer.alloc(64, byte));
    }
  }
});

test('the substitution box is that of FIPS 197', () => {
  assert.deepEqual([S_BOX[0x00], S_BOX[0x53], S_BOX[0x01], S_BOX[0xff], S_BOX[0x9a]], [0x63, 0xed, 0x7c, 0x16, 0xb8]);
  assert.equal(new Set(S_BOX).size, 256);
});
