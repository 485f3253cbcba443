/* SPDX-License-Identifier: Apache-2.0
 *
 * What a comparison says of methods whose rounds are given.
 */
#include "test.h"

#include "reports/compare_report.h"
#include "tune/baseline.h"

#define ROUNDS 3

/* Step times of three methods in three rounds: two that differ by noise alone, and one that takes a
   half more. */
static const uint64_t times[3][ROUNDS] = {
    {10100000, 10000000, 10300000}, {10150000, 10020000, 10240000}, {15000000, 15100000, 15250000}};

static void set_up(struct pst_record *records, uint64_t steps[3][ROUNDS])
{
    static const char *const names[] = {"a_b", "c", "slow"};

    memcpy(steps, times, sizeof times);
    for (uint32_t i = 0; i < 3; i++) {
        records[i] = (struct pst_record){
            .config = "x.toml",
            .method = names[i],
            .labels = {"uniform", "1f1b", "none", "2", "4", "1", "0", "1", "false"},
            .trial = {.state = PST_TRIAL_DONE,
                      .batch = 8,
                      .n_stages = 2,
                      .ran = true,
                      .n_rounds = ROUNDS,
                      .n_steps = 1,
                      .step_ns = steps[i],
                      .measured_ns = i == 2 ? times[i][1] : times[i][0],
                      .low_ns = times[i][1],
                      .high_ns = times[i][2],
                      .predicted_ns = 9000000,
                      .sim = {.period_ns = 9000000, .work_ns = 8000000}},
        };
    }
    pst_versus_all(records, 3, "slow");
}

TEST(test_tells_what_differs)
{
    struct pst_record records[3];
    uint64_t steps[3][ROUNDS];

    set_up(records, steps);
    assert_int_equal(records[2].best.record, 0);
    assert_false(records[0].best.tested); /* beside itself */
    assert_true(pst_versus_is_same(&records[1].best));
    assert_true(records[2].best.tested && !pst_versus_is_same(&records[2].best));
    assert_true(records[2].best.high < 1 && records[2].best.low < records[2].best.speedup);
    assert_int_equal(records[0].baseline.record, 2);
    assert_true(records[0].baseline.speedup > 1.45 && records[0].baseline.low > 1);
    assert_true(records[2].baseline.speedup == 1 && !records[2].baseline.tested);
}

/* Marked where they are the same, in whatever form; names cannot break it. */
TEST(test_marks_what_does_not_differ)
{
    struct pst_record records[3];
    uint64_t steps[3][ROUNDS];
    const struct pst_compare_result result = {
        .n = 3, .records = records, .n_configs = 1, .run = true};
    char *markdown, *latex, *csv, *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    set_up(records, steps);
    pst_compare_report_print(&result, false, out);
    fclose(out);
    markdown = pst_compare_report_table(&result, PST_COMPARE_MARKDOWN);
    latex = pst_compare_report_table(&result, PST_COMPARE_LATEX);
    csv = pst_compare_report_csv(&result);
    assert_non_null(strstr(text, "  0.995 =  "));
    assert_non_null(strstr(text, "  0.669    "));
    assert_non_null(strstr(text, "= no significant difference at 95 %, of 3 rounds"));
    assert_non_null(strstr(markdown, "| a\\_b | 1f1b "));
    assert_non_null(strstr(markdown, "\n\nAll with partitioner uniform, "));
    assert_non_null(
        strstr(markdown, " | 0.995 = | 1.488 | 10.15 | 10.02 to 10.24 | 9.000 | -11.3 |"));
    assert_non_null(strstr(latex, "a\\_b & 1f1b "));
    assert_non_null(strstr(latex, " & 0.995\\rlap{\\,=} & 1.488 & "));
    assert_non_null(strstr(csv, "\nx.toml,c,uniform,1f1b,none,2,4,1,done,8,2,"));
    assert_null(strstr(csv, "zero"));
    assert_null(strstr(text, "zero"));
    free(text);
    free(markdown);
    free(latex);
    free(csv);
}

/* Only where some record has another value than 0. */
TEST(test_column_of_zero)
{
    struct pst_record records[3];
    uint64_t steps[3][ROUNDS];
    const struct pst_compare_result result = {
        .n = 3, .records = records, .n_configs = 1, .run = true};
    char *markdown, *csv, *json;
    struct pst_json writer;

    set_up(records, steps);
    records[1].labels[PST_AXIS_ZERO] = "1";
    markdown = pst_compare_report_table(&result, PST_COMPARE_MARKDOWN);
    csv = pst_compare_report_csv(&result);
    pst_json_init(&writer);
    pst_json_object(&writer, NULL);
    pst_compare_report_json(&result, &writer);
    pst_json_end(&writer, '}');
    json = pst_json_take(&writer);
    assert_non_null(strstr(markdown, "| zero |"));
    assert_non_null(strstr(csv, ",replicas,zero,state,"));
    assert_non_null(strstr(csv, "\nx.toml,a_b,uniform,1f1b,none,2,4,1,0,done,"));
    assert_non_null(strstr(csv, "\nx.toml,c,uniform,1f1b,none,2,4,1,1,done,"));
    assert_non_null(strstr(json, "\"replicas\":1,\"zero\":0,"));
    assert_non_null(strstr(json, "\"replicas\":1,\"zero\":1,"));
    free(markdown);
    free(csv);
    free(json);
}

/* Paths and names of others stand in the files, too, and a terminal may show those: ESC, U+009B as
   one byte and as two, DEL, U+202E. Well-formed characters stay. */
TEST(test_files_cannot_control_a_terminal)
{
    static const struct {
        const char *raw, *csv, *markdown;
    } cases[] = {
        {"a\033[2Jb", "a\xEF\xBF\xBD[2Jb", "a \\[2Jb"},
        {"a\x9Bm", "a\xEF\xBF\xBDm", "a?m"},
        {"a\xC2\x9Bm", "a\xEF\xBF\xBDm", "a m"},
        {"a\x7F\xE2\x80\xAEz", "a\xEF\xBF\xBD\\u{202e}z", "a  z"},
        {"a,\033\"b", "\"a,\xEF\xBF\xBD\"\"b\"", "a, \"b"},
        {"na\xC3\xAFve", "na\xC3\xAFve", "na\xC3\xAFve"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pst_record records[3];
        uint64_t steps[3][ROUNDS];
        const struct pst_compare_result result = {
            .n = 3, .records = records, .n_configs = 1, .run = true};
        char *markdown, *csv, cell[64];

        set_up(records, steps);
        records[1].method = cases[i].raw;
        markdown = pst_compare_report_table(&result, PST_COMPARE_MARKDOWN);
        csv = pst_compare_report_csv(&result);
        snprintf(cell, sizeof cell, "\nx.toml,%s,uniform,", cases[i].csv);
        assert_non_null(strstr(csv, cell));
        snprintf(cell, sizeof cell, "| %s | 1f1b ", cases[i].markdown);
        assert_non_null(strstr(markdown, cell));
        free(markdown);
        free(csv);
    }
}
