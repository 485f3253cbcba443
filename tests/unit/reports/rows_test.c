/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of figures: --json, table and documents say the same of each.
 */
#include "test.h"

#include <stdlib.h>

#include "base/json.h"
#include "reports/rows.h"

enum { SLOW, FAST };

struct part {
    uint32_t n_ranks;
    const uint32_t *ranks;
    const char *kind; /* NULL: not known */
};

struct whole {
    char id[8];
    const char *name;
    bool ready;
    uint32_t peer; /* UINT32_MAX: none */
    uint64_t bytes, ns;
    double share, compute_ns, room, rate;
    uint64_t limit; /* UINT64_MAX: none */
    uint8_t speed;
    uint32_t n_parts;
    const struct part *parts;
};

static void put_twice(struct pst_json *json, const struct pst_row *row, const struct pst_row_of *of)
{
    pst_json_uint(json, row->key, 2 * *(const uint64_t *)pst_row_value(row, of));
}

static void cell_of(struct pst_table *table, const struct pst_row_of *of)
{
    pst_table_cell(table, "part %u of %s", *(const uint32_t *)of->at[PST_ROW_INDEX],
                   ((const struct whole *)of->at[PST_ROW_OUTER])->name);
}

static const char *speed_name(uint32_t speed)
{
    return speed == FAST ? "fast" : "slow";
}

#define OF_PART(kind, member) PST_ROW_AT(kind, PST_ROW_ENTRY, struct part, member)
static const struct pst_row part_rows[] = {
    {"id", "its number", PST_ROW_COUNT, .base = PST_ROW_INDEX, .title = ">part"},
    {"kind", NULL, OF_PART(TEXT, kind), .absent = PST_ROW_IF_ZERO},
    {"ranks", NULL, PST_ROW_COUNT, PST_ROW_EACH(PST_ROW_ENTRY, struct part, ranks, n_ranks)},
    {NULL, NULL, .cell = cell_of, .title = "~where"},
    {NULL, NULL, OF_PART(COUNT, n_ranks), .title = ">ranks"},
    PST_ROWS_END,
};

#define OF(kind, member) PST_ROW_AT(kind, 0, struct whole, member)
static const struct pst_row inner_rows[] = {
    {"bytes", "twice", OF(BYTES, bytes), .json = put_twice},
    PST_ROWS_END,
};
static const struct pst_row beside_rows[] = {
    PST_ROWS_END,
};
static const struct pst_row ranks_of = {NULL, NULL, PST_ROW_COUNT,
                                        PST_ROW_EACH(PST_ROW_ENTRY, struct part, ranks, n_ranks)};
#define N_FIGURES 16 /* rows before those with rows of their own */
static const struct pst_row rows[] = {
    {"id", NULL, OF(NAME, id)},
    {"name", NULL, OF(TEXT, name), .title = "name"},
    {"ready", NULL, OF(FLAG, ready), .title = "ready"},
    {"peer", "absent: none", OF(COUNT, peer), .absent = PST_ROW_IF_NONE},
    {"bytes", NULL, OF(BYTES, bytes), PST_ROW_UNLESS(IF_ZERO, 0, struct whole, ready),
     .title = ">bytes"},
    {"time_us", NULL, OF(NS, ns), .title = ">time"},
    {"compute_us", NULL, OF(TIME, compute_ns), .title = ">compute"},
    {"room", NULL, OF(ROOM, room), .title = ">room"},
    {"share", NULL, OF(REAL, share), .form = "%.1f", .title = ">share"},
    {"rate", NULL, OF(REAL, rate), .decimals = 2},
    {"exact", NULL, OF(VALUE, rate)},
    {"figure", NULL, OF(FIGURE, rate)},
    {"seconds", NULL, OF(SECONDS, ns)},
    {"mean_us", NULL, OF(MEAN, compute_ns), .title = ">mean"},
    {"limit", "null: none", OF(BYTES, limit), .none = "no limit", .title = ">limit"},
    {"speed", NULL, OF(WORD, speed), .word = speed_name},
    {NULL, NULL, PST_ROW_OBJECT, .rows = beside_rows},
    {"inner", NULL, PST_ROW_OBJECT, .rows = inner_rows},
    {"parts", "one per part", PST_ROW_OBJECT, .rows = part_rows,
     PST_ROW_EACH(0, struct whole, parts, n_parts)},
    {"all_ranks", "for each part", PST_ROW_OBJECT, .each = &ranks_of,
     PST_ROW_EACH(0, struct whole, parts, n_parts)},
    PST_ROWS_END,
};
struct all {
    uint32_t n;
    const struct whole *wholes;
};
static const struct pst_row lists[] = {
    {"wholes", NULL, PST_ROW_OBJECT, .rows = rows, PST_ROW_EACH(0, struct all, wholes, n)},
    PST_ROWS_END,
};

static const uint32_t ranks[] = {3, 5};
static const struct part parts[] = {{2, ranks, NULL}, {0, NULL, "fast"}};
static const struct whole some = {.id = "ab",
                                  .name = "x",
                                  .ready = true,
                                  .peer = UINT32_MAX,
                                  .bytes = 1024,
                                  .ns = 1500,
                                  .share = 1.0 / 3,
                                  .compute_ns = 2.5e6,
                                  .room = 2047.5,
                                  .rate = 2.0 / 3,
                                  .limit = UINT64_MAX,
                                  .speed = FAST,
                                  .n_parts = 2,
                                  .parts = parts};

static const struct all all = {1, &some};

static void expect_json(const struct whole *whole, const char *expected)
{
    struct pst_json json;
    char *text;

    pst_json_init(&json);
    pst_json_object(&json, NULL);
    pst_rows_json(&json, rows, PST_ROW_OF(whole));
    pst_json_end(&json, '}');
    text = pst_json_take(&json);
    assert_string_equal(text, expected);
    free(text);
}

TEST(json_has_every_kind_and_nested_lists)
{
    struct whole other = some;

    expect_json(&some,
                "{\"id\":\"ab\",\"name\":\"x\",\"ready\":true,\"bytes\":1024,\"time_us\":1.5,\""
                "compute_us\":2500,\"room\":2047.5,\"share\":0.333333,\"rate\":0.67,\"exact\":0"
                ".6666666666666666,\"figure\":0.666666666667,\"seconds\":0.0000015,\"mean_us\":"
                "2500,\"limit\":null,\"speed\":\"fast\",\"inner\":{\"bytes\":2048},"
                "\"parts\":[{\"id\":0,\"ranks\":[3,5]},{\"id\":1,\"kind\":\"fast\",\"ranks\":[]"
                "}],\"all_ranks\":[[3,5],[]]}");
    other.ready = false;
    other.peer = 0;
    other.name = NULL;
    other.limit = 7;
    other.n_parts = 0;
    expect_json(&other,
                "{\"id\":\"ab\",\"name\":null,\"ready\":false,\"peer\":0,\"time_us\":1.5,\"comp"
                "ute_us\":2500,\"room\":2047.5,\"share\":0.333333,\"rate\":0.67,\"exact\":0.666"
                "6666666666666,\"figure\":0.666666666667,\"seconds\":0.0000015,\"mean_us\":2500"
                ",\"limit\":7,\"speed\":\"fast\",\"inner\":{\"bytes\":2048},\"parts"
                "\":[],\"all_ranks\":[]}");
}

static void expect_text(char **text, FILE *out, const char *expected)
{
    assert_int_equal(fclose(out), 0);
    assert_string_equal(*text, expected);
    free(*text);
}

TEST(tables_have_the_rows_with_a_title)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    pst_rows_print(lists, "wholes", PST_ROW_OF(&all), "", false, out);
    pst_rows_print(rows, "parts", PST_ROW_OF(&some), "", false, out);
    expect_text(&text, out,
                "name  ready     bytes     time  compute      room  share     mean     limit\n"
                "x     yes    1.00 KiB  1.50 us   2.5 ms  2.00 KiB    0.3  2.50 ms  no limit\n"
                "part  where        ranks\n"
                "   0  part 0 of x      2\n"
                "   1  part 1 of x      0\n");
}

TEST(documents_have_a_line_for_each_field)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    pst_rows_document(part_rows, "parts[].", out);
    pst_rows_document(rows + N_FIGURES, "", out);
    expect_text(&text, out,
                "| `parts[].id` | integer | its number |\n"
                "| `parts[].kind` | text |  |\n"
                "| `parts[].ranks` | list: integer |  |\n"
                "| `inner` | object |  |\n"
                "| `inner.bytes` | bytes | twice |\n"
                "| `parts` | list: object | one per part |\n"
                "| `parts[].id` | integer | its number |\n"
                "| `parts[].kind` | text |  |\n"
                "| `parts[].ranks` | list: integer |  |\n"
                "| `all_ranks` | list: list: integer | for each part |\n");
}
