/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes, against vectors that their authors publish.
 */
#include "test.h"

#include "base/hash.h"

/* draft-eastlake-fnv, appendix C. */
TEST(fnv1a)
{
    assert_true(pst_fnv1a_bytes(PST_FNV1A, "", 0) == 0xcbf29ce484222325u);
    assert_true(pst_fnv1a_bytes(PST_FNV1A, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(pst_fnv1a_bytes(PST_FNV1A, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(pst_fnv1a(PST_FNV1A, 'a') == 0xaf63dc4c8601ec8cu);
}
