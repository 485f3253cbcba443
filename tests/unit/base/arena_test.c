/* SPDX-License-Identifier: Apache-2.0 */
#include "test.h"

#include "base/arena.h"

TEST(memory_is_zero_aligned_and_apart)
{
    struct pst_arena arena = {0};
    unsigned char *blocks[2000];
    uint64_t seed = 42;

    for (size_t i = 0; i < 2000; i++) {
        size_t align = (size_t)1 << (i % 8), bytes;

        seed = seed * 6364136223846793005u + 1442695040888963407u;
        bytes = 1 + (seed >> 33) % 300;
        blocks[i] = pst_arena_alloc(&arena, bytes, align);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % align, 0);
        for (size_t j = 0; j < bytes; j++) {
            assert_int_equal(blocks[i][j], 0); /* dirty if it overlapped an earlier block */
        }
        memset(blocks[i], 0xFF, bytes);
    }
    assert_true(arena.used <= arena.total);
    pst_arena_finish(&arena);
    assert_int_equal(arena.total, 0);
    assert_non_null(pst_arena_alloc(&arena, 8, 0)); /* usable again */
    pst_arena_finish(&arena);
    pst_arena_finish(&arena);
}

TEST(copies_and_tables_of_no_index)
{
    struct pst_arena arena = {0};
    uint16_t items[] = {3, 1, 4};
    uint16_t *copy = pst_arena_copy(&arena, items, 3, sizeof *items);
    const uint32_t *none = pst_arena_none(&arena, 2);

    items[0] = 0;
    assert_int_equal(copy[0] * 100 + copy[1] * 10 + copy[2], 314);
    assert_true(none[0] == UINT32_MAX && none[1] == UINT32_MAX);
    assert_non_null(pst_arena_copy(&arena, NULL, 0, 8));
    assert_non_null(pst_arena_none(&arena, 0));
    pst_arena_finish(&arena);
}

TEST(sizes_at_the_ends)
{
    struct pst_arena arena = {0};
    char *big;

    assert_non_null(pst_arena_alloc(&arena, 0, 0));
    big = pst_arena_alloc(&arena, 1 << 20, 4096);
    assert_non_null(big);
    assert_int_equal((uintptr_t)big % 4096, 0);
    big[(1 << 20) - 1] = 1;
    assert_null(pst_arena_try(&arena, SIZE_MAX, 0));
    assert_null(pst_arena_try(&arena, SIZE_MAX - 100, 64));
    assert_null(pst_arena_try(&arena, 8, 8192));
    pst_arena_finish(&arena);
}

TEST(texts)
{
    struct pst_arena arena = {0};
    char *text;

    assert_string_equal(pst_arena_strdup(&arena, "abc"), "abc");
    assert_string_equal(pst_arena_strndup(&arena, "abcdef", 3), "abc");
    assert_string_equal(pst_arena_strndup(&arena, "", 0), "");
    assert_null(pst_arena_strdup(&arena, NULL));
    text = pst_arena_printf(&arena, "%0*d", 100000, 7);
    assert_int_equal(strlen(text), 100000);
    assert_int_equal(text[99999], '7');
    pst_arena_finish(&arena);
}
