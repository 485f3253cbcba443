/* SPDX-License-Identifier: Apache-2.0
 *
 * Hashes, against vectors that their authors publish.
 */
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/util.h"
#include "support.h"

/* draft-eastlake-fnv, appendix C. */
TEST(fnv1a)
{
    assert_true(pst_fnv1a_bytes(PST_FNV1A, "", 0) == 0xcbf29ce484222325u);
    assert_true(pst_fnv1a_bytes(PST_FNV1A, "a", 1) == 0xaf63dc4c8601ec8cu);
    assert_true(pst_fnv1a_bytes(PST_FNV1A, "foobar", 6) == 0x85944171f73967e8u);
    assert_true(pst_fnv1a(PST_FNV1A, 'a') == 0xaf63dc4c8601ec8cu);
}

TEST_WITH(file, support_begin, support_end)
{
    const int folder = open(support_folder, O_RDONLY | O_DIRECTORY);
    struct pst_hash hash = {0}, of_text = pst_hash_of("text", 4);
    struct pst_error err;

    assert_ok(pst_file_write(support_path("file"), "text", 4, &err), &err);
    assert_int_equal(symlink("file", support_path("link")), 0);
    assert_true(pst_hash_file(folder, "file", O_NOFOLLOW, &hash));
    assert_true(pst_hash_equal(&hash, &of_text));
    assert_true(pst_hash_file(AT_FDCWD, support_path("link"), 0, &hash));
    assert_false(pst_hash_file(folder, "link", O_NOFOLLOW, &hash));
    assert_int_equal(errno, ELOOP);
    assert_false(pst_hash_file(folder, ".", 0, &hash));
    assert_int_equal(errno, EISDIR);
    close(folder);
}
