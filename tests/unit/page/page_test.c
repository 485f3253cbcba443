/* SPDX-License-Identifier: Apache-2.0
 *
 * Pages by their text: tags are balanced, every plan that is done has a row, the rest its reason,
 * what comes from outside cannot become mark-up, nothing is loaded, the same input gives the same
 * bytes.
 */
#include "page/page.h"

#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "support.h"
#include "unit/reports/timeline_rig.h"

static const uint64_t thirds[3] = {1000000, 1000000, 1000000};

static struct pst_record record_of(const char *scheduler, uint64_t step_ns)
{
    static uint64_t arena[4] = {3 << 20, 1 << 20, 1 << 20, 2 << 20};
    struct pst_record record = {
        .config = "job.toml",
        .labels = {"chain-dp", scheduler, "none", "4", "2", "1", "0", "1", "false"}};

    record.trial.state = PST_TRIAL_DONE;
    record.trial.batch = 16;
    record.trial.n_stages = record.trial.n_devices = 4;
    record.trial.arena_bytes = arena;
    record.trial.capacity_bytes = UINT64_MAX;
    record.trial.sim.period_ns = step_ns;
    return record;
}

static uint32_t count(const char *text, const char *word)
{
    uint32_t n = 0;

    for (const char *at = text; (at = strstr(at, word)) != NULL; at++) {
        n++;
    }
    return n;
}

/* Tags are closed in order; style and script are text. */
static void expect_balanced(const char *html)
{
    static const char *const single[] = {"meta", "br", "link"};
    char stack[64][16];
    int depth = 0;

    for (const char *at = html; (at = strchr(at, '<')) != NULL; at++) {
        const char *end = strchr(at, '>');
        char name[16] = "", close[24];
        bool alone = false;

        assert_non_null(end);
        if (at[1] == '!') {
            continue;
        }
        sscanf(at + (at[1] == '/' ? 2 : 1), "%15[a-zA-Z0-9]", name);
        for (size_t i = 0; i < sizeof single / sizeof single[0]; i++) {
            alone |= strcmp(name, single[i]) == 0;
        }
        if (at[1] == '/') {
            assert_true(depth > 0);
            assert_string_equal(stack[--depth], name);
        } else if (end[-1] != '/' && !alone) {
            assert_true(depth < 64);
            strcpy(stack[depth++], name);
            if (strcmp(name, "script") == 0 || strcmp(name, "style") == 0) {
                snprintf(close, sizeof close, "</%s>", name);
                at = strstr(at, close) - 1;
            }
        }
    }
    assert_int_equal(depth, 0);
}

/* Of a gallery with a timeline for each record that is done. */
static void show_all(struct pst_gallery *gallery, const struct pst_compare_result *result,
                     uint32_t n_ranks, uint32_t n_mbs)
{
    static const struct pst_stage_box box = {.first = "a<b", .last = "&amp", .n_nodes = 2};

    pst_gallery_begin(gallery, result->n, PST_PAGE_TIMELINES);
    for (uint32_t i = 0; i < result->n && i < PST_PAGE_TIMELINES; i++) {
        struct pst_exhibit *exhibit = &gallery->exhibits[i];

        if (result->records[i].trial.state == PST_TRIAL_DONE) {
            exhibit->known = true;
            exhibit->timeline =
                rig_timeline(i % 2 == 0 ? RIG_1F1B : RIG_SPLIT, n_ranks, n_mbs, thirds, 100000);
            exhibit->stages = (struct pst_stage_graph){.title = "t", .n_stages = 1, .stages = &box};
        }
    }
}

static char *page_of(const struct pst_compare_result *result, const struct pst_gallery *gallery,
                     size_t *ret_length)
{
    const struct pst_page page = {"compare", "job.toml", result, gallery};

    return pst_page_text(&page, ret_length);
}

TEST(every_record_is_told)
{
    struct pst_record records[4] = {record_of("gpipe", 3000000), record_of("1f1b", 2000000),
                                    record_of("zb-h1", 1000000), record_of("v-half", 1000000)};
    struct pst_compare_result result = {.n = 4, .records = records, .n_configs = 1};
    FINISHED_BY(pst_gallery_finish) struct pst_gallery gallery;
    size_t length, again_length;
    char *html, *again;

    records[3].trial.state = PST_TRIAL_NO_FIT;
    snprintf(records[3].trial.why.message, sizeof records[3].trial.why.message,
             "needs <3> GiB & \"more\"");
    show_all(&gallery, &result, 4, 8);
    html = page_of(&result, &gallery, &length);
    expect_balanced(html);
    assert_int_equal(count(html, "<tr id=\"r"), 3);
    assert_int_equal(count(html, "<svg class=\"figure timeline\""), 3);
    assert_int_equal(count(html, "<svg class=\"figure stages\""), 3);
    assert_true(strstr(html, "<tr id=\"r1\"") < strstr(html, "zb-h1</td>"));
    expect_text(
        html,
        "3 of 4 combinations simulated. Fastest: <strong>zb-h1</strong>, 16,000 samples/s, 3.00");
    expect_text(html, "needs &lt;3&gt; GiB &amp; &quot;more&quot;");
    assert_null(strstr(html, "<3>"));
    assert_null(strstr(html, "a<b"));
    assert_null(strstr(html, "https:"));
    assert_null(strstr(html, "@import"));
    again = page_of(&result, &gallery, &again_length);
    assert_int_equal(length, again_length);
    assert_memory_equal(html, again, length);
    free(html);
    free(again);
}

/* Names that try to be mark-up, in every place where there is one. */
TEST(hostile_names)
{
    struct pst_record records[2] = {record_of("</script><script>alert(1)</script>", 1000000),
                                    record_of("\"><img src=x>\xFF\x1B", 2000000)};
    struct pst_compare_result result = {.n = 2, .records = records, .n_configs = 2};
    FINISHED_BY(pst_gallery_finish) struct pst_gallery gallery;
    size_t length;
    char *html;

    records[0].config = "<i>.toml";
    show_all(&gallery, &result, 2, 2);
    html = page_of(&result, &gallery, &length);
    expect_balanced(html);
    expect_text(html, "id=\"pivot\"");
    assert_null(strstr(html, "<img"));
    assert_null(strstr(html, "<script>alert"));
    assert_null(strstr(html, "<i>.toml"));
    assert_null(strchr(html, '\x1B'));
    assert_null(strchr(html, '\xFF'));
    free(html);
}

TEST(more_rows_than_a_table_has)
{
    const uint32_t n = PST_PAGE_ROWS + 500;
    struct pst_record *records = pst_alloc(2 * n, sizeof *records);
    struct pst_compare_result result = {.n = 2 * n, .records = records, .n_configs = 1};
    FINISHED_BY(pst_gallery_finish) struct pst_gallery gallery;
    size_t length;
    char *html;

    for (uint32_t i = 0; i < 2 * n; i++) {
        records[i] = record_of("1f1b", 1000000 + i);
        records[i].trial.state = i < n ? PST_TRIAL_DONE : PST_TRIAL_MISMATCH;
    }
    pst_gallery_begin(&gallery, result.n, 0);
    html = page_of(&result, &gallery, &length);
    expect_balanced(html);
    assert_int_equal(count(html, "<tr id=\"r"), PST_PAGE_ROWS);
    assert_int_equal(count(html, "<td>is incompatible"), PST_PAGE_ROWS);
    expect_text(html, "The fastest 1000 of 1500;");
    expect_text(html, "The first 1000 of 1500;");
    free(html);
    free(records);
}

/* 20 plans of 8 devices and 32 micro-batches, the most that a page shows in full, in 2 MB; very
   large ones by their shares of time. */
TEST(size)
{
    struct pst_record records[PST_PAGE_TIMELINES];
    struct pst_compare_result result = {
        .n = PST_PAGE_TIMELINES, .records = records, .n_configs = 1};
    struct pst_gallery gallery;
    size_t length;

    for (uint32_t i = 0; i < PST_PAGE_TIMELINES; i++) {
        records[i] = record_of(i % 2 == 0 ? "1f1b" : "zb-h1", 1000000 + i);
    }
    show_all(&gallery, &result, 8, 32);
    free(page_of(&result, &gallery, &length));
    assert_in_range(length, 200000, 2000000);
    pst_gallery_finish(&gallery);

    result.n = 4;
    show_all(&gallery, &result, 64, 256);
    free(page_of(&result, &gallery, &length));
    assert_in_range(length, 100000, 2000000);
    pst_gallery_finish(&gallery);
}

TEST(nothing_is_done)
{
    struct pst_record record = record_of("gpipe", 1);
    struct pst_compare_result result = {.n = 1, .records = &record, .n_configs = 1};
    FINISHED_BY(pst_gallery_finish) struct pst_gallery gallery;
    size_t length;
    char *html;

    record.trial.state = PST_TRIAL_FAILED;
    pst_gallery_begin(&gallery, 1, 4);
    html = page_of(&result, &gallery, &length);
    expect_balanced(html);
    assert_null(strstr(html, "id=\"results\""));
    expect_text(html, "id=\"refused\"");
    free(html);
}

TEST_GROUP(support_begin, support_end)
