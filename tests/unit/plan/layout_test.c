/* SPDX-License-Identifier: Apache-2.0
 *
 * Layouts of arenas: nothing overlaps, and where a device has room for the bytes that live together
 * gaps rarely make them too many. The cases are rectangles of time and addresses that were cut into
 * tiles, so that a layout without any gap exists.
 */
#include "plan/program_build.h"

#include "test.h"

#include "base/philox.h"
#include "plan/layouts.h"

enum { MOST = 64, HEIGHT = 48, TICKS = 40 };

static uint64_t seed, draws;

static uint32_t draw(uint32_t below)
{
    return pst_philox(seed, 3, draws++).v[0] % below;
}

struct tiles {
    struct pst_value values[MOST];
    uint32_t n;
};

/* Cuts a rectangle in two, in time or in addresses, until the parts are small or it is enough. */
static void cut(struct tiles *t, uint32_t first, uint32_t end, uint32_t height, uint32_t depth)
{
    bool by_time = draw(2) == 0;
    uint32_t length = end - first, size = by_time ? length : height;

    if (depth == 0 || size < 2 || draw(6) == 0) {
        struct pst_value *value = &t->values[t->n++];

        *value = (struct pst_value){.kind = PST_V_ACT, .bytes = (uint64_t)height * PST_VALUE_ALIGN};
        value->first = first;
        value->last = end - 1;
        return;
    }
    size = 1 + draw(size - 1);
    if (by_time) {
        cut(t, first, first + size, height, depth - 1);
        cut(t, first + size, end, height, depth - 1);
    } else {
        cut(t, first, end, size, depth - 1);
        cut(t, first, end, height - size, depth - 1);
    }
}

static void shuffle(struct tiles *t)
{
    for (uint32_t i = t->n; i > 1; i--) {
        uint32_t j = draw(i);
        struct pst_value value = t->values[i - 1];

        t->values[i - 1] = t->values[j];
        t->values[j] = value;
    }
}

static void check_apart(const struct pst_program *program)
{
    for (uint32_t i = 0; i < program->n_values; i++) {
        const struct pst_value *a = &program->values[i];

        assert_int_equal(a->offset % PST_VALUE_ALIGN, 0);
        assert_true(a->offset + a->bytes <= program->arena_bytes);
        for (uint32_t j = 0; j < i; j++) {
            const struct pst_value *b = &program->values[j];
            bool meet = a->first <= b->last && b->first <= a->last;

            assert_false(meet && a->offset < b->offset + b->bytes &&
                         b->offset < a->offset + a->bytes);
        }
    }
}

static uint64_t lay_out(const struct tiles *tiles, uint64_t limit)
{
    struct tiles copy = *tiles;
    struct pst_program program = {.values = copy.values, .n_values = copy.n, .n_ticks = TICKS};

    pst_layout_program(&program, limit, NULL);
    assert_int_equal(program.peak_bytes, HEIGHT * PST_VALUE_ALIGN);
    check_apart(&program);
    return program.arena_bytes;
}

TEST(test_tiles)
{
    const uint64_t whole = HEIGHT * PST_VALUE_ALIGN;
    uint32_t without = 0, with = 0, rounds = 400;
    double gaps_without = 0, gaps_with = 0;

    for (seed = 1; seed <= rounds; seed++) {
        struct tiles tiles = {.n = 0};
        uint64_t plain, tried;

        draws = 0;
        cut(&tiles, 0, TICKS, HEIGHT, 5);
        shuffle(&tiles);
        plain = lay_out(&tiles, UINT64_MAX);
        tried = lay_out(&tiles, whole);
        assert_true(tried <= plain);
        assert_int_equal(lay_out(&tiles, whole), tried);
        for (uint64_t limit = whole; limit < plain; limit += PST_VALUE_ALIGN) {
            uint64_t found = lay_out(&tiles, limit);

            /* whether it fits does not hang on the limit, and what was found is found again */
            assert_int_equal(found <= limit, tried <= limit);
            assert_int_equal(lay_out(&tiles, found), found);
        }
        assert_int_equal(lay_out(&tiles, plain), plain);     /* it fits: nothing else is tried */
        assert_int_equal(lay_out(&tiles, whole - 1), plain); /* it cannot fit */
        without += plain == whole;
        with += tried == whole;
        gaps_without += (double)(plain - whole) / (double)whole / rounds;
        gaps_with += (double)(tried - whole) / (double)whole / rounds;
    }
    print_message("%u tilings: without gaps %u, with a limit %u; gaps %.2f %% and %.2f %%\n",
                  rounds, without, with, 100 * gaps_without, 100 * gaps_with);
    assert_true(with > without);
    assert_true(gaps_with < 0.6 * gaps_without);
}

/* Five buffers around one that lives across two others; the five units that live at a time do. */
TEST(test_known)
{
    static const struct {
        uint32_t bytes, first, last;
    } rows[] = {{3, 0, 1}, {3, 2, 3}, {2, 1, 2}, {2, 0, 0}, {2, 3, 3}};
    struct pst_value values[5] = {{.kind = PST_V_ACT}};
    struct pst_program program = {.values = values, .n_values = 5, .n_ticks = 4};

    for (uint32_t i = 0; i < 5; i++) {
        values[i] = (struct pst_value){.kind = PST_V_ACT,
                                       .bytes = (uint64_t)rows[i].bytes * PST_VALUE_ALIGN,
                                       .first = rows[i].first,
                                       .last = rows[i].last};
    }
    pst_layout_program(&program, 5 * PST_VALUE_ALIGN, NULL);
    assert_int_equal(program.peak_bytes, 5 * PST_VALUE_ALIGN);
    assert_int_equal(program.arena_bytes, 5 * PST_VALUE_ALIGN);
    check_apart(&program);
}

/* Lays the tiles out with what was found before; the same must come of it without. Returns true if
   that was known. */
static bool is_known(struct pst_layouts *layouts, const struct tiles *tiles, uint64_t limit)
{
    struct tiles copy = *tiles, fresh = *tiles;
    struct pst_program program = {.values = copy.values, .n_values = copy.n, .n_ticks = TICKS + 1};
    struct pst_program other = {.values = fresh.values, .n_values = fresh.n, .n_ticks = TICKS + 1};
    const uint32_t before = layouts->next;

    pst_layout_program(&program, limit, layouts);
    pst_layout_program(&other, limit, NULL);
    assert_int_equal(program.arena_bytes, other.arena_bytes);
    assert_int_equal(program.host_bytes, other.host_bytes);
    assert_int_equal(program.peak_bytes, other.peak_bytes);
    assert_int_equal(program.static_bytes, other.static_bytes);
    for (uint32_t i = 0; i < tiles->n; i++) {
        assert_int_equal(copy.values[i].offset, fresh.values[i].offset);
    }
    return layouts->next == before;
}

/* A layout is found once, whatever static values lie in front of it; what it depends on makes
   another. */
TEST(test_known_layouts)
{
    const uint64_t whole = HEIGHT * PST_VALUE_ALIGN, part = 3 * PST_VALUE_ALIGN;
    struct pst_layouts layouts = {.next = 0};
    struct tiles tiles = {.n = 0}, changed;

    seed = 7;
    draws = 0;
    cut(&tiles, 0, TICKS, HEIGHT, 5);
    assert_true(tiles.n > 4 && tiles.n < MOST);
    assert_false(is_known(&layouts, &tiles, whole));
    assert_true(is_known(&layouts, &tiles, whole));
    changed = tiles; /* a static value in the middle, and as much more room */
    memmove(&changed.values[3], &changed.values[2], (tiles.n - 2) * sizeof *tiles.values);
    changed.values[2] = (struct pst_value){
        .kind = PST_V_WEIGHT, .is_static = true, .bytes = part, .last = TICKS - 1};
    changed.n++;
    assert_true(is_known(&layouts, &changed, whole + part));
    for (uint32_t i = 0; i < 3; i++) {
        changed = tiles;
        changed.values[0].bytes -= i == 0;
        changed.values[0].kind = i == 1 ? PST_V_HOST : changed.values[0].kind;
        changed.values[0].last += i == 2 ? 1 : 0;
        assert_false(is_known(&layouts, &changed, whole));
    }
    for (uint32_t i = 0; i < PST_LAYOUTS; i++) {
        changed.values[0].bytes++;
        is_known(&layouts, &changed, whole);
    }
    assert_false(is_known(&layouts, &tiles, whole)); /* others have its place */
    pst_layouts_finish(&layouts);
}

/* With every amount of room the same is found as without those that are known. */
TEST(test_known_rooms)
{
    const uint64_t whole = HEIGHT * PST_VALUE_ALIGN;
    uint32_t known = 0;

    for (seed = 1; seed <= 40; seed++) {
        struct pst_layouts layouts = {.next = 0};
        struct tiles tiles = {.n = 0};

        draws = 0;
        cut(&tiles, 0, TICKS, HEIGHT, 5);
        shuffle(&tiles);
        for (uint32_t i = 0; i < 60; i++) {
            known +=
                is_known(&layouts, &tiles, whole - PST_VALUE_ALIGN + draw(20) * PST_VALUE_ALIGN);
        }
        pst_layouts_finish(&layouts);
    }
    assert_true(known > 40 * 30);
}
