/* SPDX-License-Identifier: Apache-2.0
 *
 * Figures by their structure: every pass is a box of its colour, files are what their names say,
 * the same timeline gives the same bytes, and nothing that a timeline may hold breaks one.
 */
#include <math.h>

#include "figures/figure.h"

#include "test.h"

#include "figures/figure_impl.h"
#include "support.h"
#include "unit/reports/timeline_rig.h"

static const uint64_t thirds[3] = {1000000, 1000000, 1000000};

static char *render(const struct pst_timeline *timeline, enum pst_figure_format format,
                    const struct pst_figure_options *options, size_t *ret_length)
{
    unsigned char *bytes = NULL;
    struct pst_error err = {0};
    char *text;

    assert_ok(pst_figure_render(timeline, format, options, &bytes, ret_length, &err), &err);
    text = malloc(*ret_length + 1);
    assert_non_null(text);
    memcpy(text, bytes, *ret_length);
    text[*ret_length] = '\0';
    free(bytes);
    return text;
}

/* Closed subpaths of every path that is filled with the colour. */
static uint32_t count_boxes(const char *svg, struct pst_color color)
{
    char begin[64];
    uint32_t n = 0;

    snprintf(begin, sizeof begin, "<path fill=\"#%02x%02x%02x\" d=\"",
             (unsigned)lround(255 * color.r), (unsigned)lround(255 * color.g),
             (unsigned)lround(255 * color.b));
    for (const char *at = svg; (at = strstr(at, begin)) != NULL;) {
        at += strlen(begin);
        for (const char *end = strchr(at, '"'); at < end; at++) {
            n += *at == 'z';
        }
    }
    return n;
}

/* Tags are balanced and closed in order. */
static void expect_well_formed(const char *svg)
{
    char stack[32][16];
    int depth = 0;

    for (const char *at = svg; (at = strchr(at, '<')) != NULL; at++) {
        const char *end = strchr(at, '>');
        char name[16] = "";

        assert_non_null(end);
        if (at[1] == '?') {
            continue;
        }
        sscanf(at + (at[1] == '/' ? 2 : 1), "%15[a-zA-Z]", name);
        if (at[1] == '/') {
            assert_true(depth > 0);
            assert_string_equal(stack[--depth], name);
        } else if (end[-1] != '/') {
            assert_true(depth < 32);
            strcpy(stack[depth++], name);
        }
    }
    assert_int_equal(depth, 0);
}

static void expect_boxes(const char *svg, enum pst_figure_kind kind, uint32_t n_chunks, uint32_t n)
{
    for (uint32_t chunk = 0; chunk < n_chunks; chunk++) {
        /* one more in the legend */
        assert_int_equal(count_boxes(svg, pst_figure_color(kind, chunk, n_chunks)), n + 1);
    }
}

TEST(a_box_for_each_pass)
{
    struct pst_timeline *timeline;
    size_t length;
    char *svg;

    timeline = rig_timeline(RIG_1F1B, 4, 8, thirds, 200000);
    svg = render(timeline, PST_FIGURE_SVG, NULL, &length);
    expect_well_formed(svg);
    expect_boxes(svg, FIGURE_F, 1, 32);
    expect_boxes(svg, FIGURE_BW, 1, 32);
    expect_boxes(svg, FIGURE_ACT, 1, 2 * 3 * 8); /* both ends of 3 links */
    expect_boxes(svg, FIGURE_GRAD, 1, 2 * 3 * 8);
    assert_int_equal(count_boxes(svg, pst_figure_color(FIGURE_B, 0, 1)), 0);
    free(svg);
    pst_timeline_destroy(timeline);

    timeline = rig_timeline(RIG_V, 3, 5, thirds, 0);
    svg = render(timeline, PST_FIGURE_SVG, NULL, &length);
    expect_well_formed(svg);
    expect_boxes(svg, FIGURE_F, 2, 15);
    expect_boxes(svg, FIGURE_B, 2, 15);
    expect_boxes(svg, FIGURE_W, 2, 15);
    free(svg);
    pst_timeline_destroy(timeline);
}

/* The numbers of micro-batches are there where there is room, and nowhere else. */
TEST(numbers)
{
    const struct pst_figure_options small = {.width_pt = 360};
    OWN(timeline) *timeline = rig_timeline(RIG_SPLIT, 4, 32, thirds, 0);
    size_t length;
    char *with, *without;
    uint32_t n[2] = {0, 0};

    with = render(timeline, PST_FIGURE_SVG, NULL, &length);
    without = render(timeline, PST_FIGURE_SVG, &small, &length);
    for (const char *at = with; (at = strstr(at, "<text ")) != NULL; at++) {
        n[0]++;
    }
    for (const char *at = without; (at = strstr(at, "<text ")) != NULL; at++) {
        n[1]++;
    }
    /* 4 x 3 passes of 32 micro-batches; axis, names and memory panel have some more */
    assert_true(n[0] > 12 * 32);
    assert_true(n[1] < 100);
    free(with);
    free(without);
}

TEST(same_bytes)
{
    OWN(timeline) *timeline = rig_timeline(RIG_LOOPED, 4, 6, thirds, 100000);

    for (int format = PST_FIGURE_SVG; format <= PST_FIGURE_PDF; format++) {
        size_t first_length, second_length;
        char *first = render(timeline, format, NULL, &first_length);
        char *second = render(timeline, format, NULL, &second_length);

        assert_int_equal(first_length, second_length);
        assert_memory_equal(first, second, first_length);
        assert_null(strstr(first, "CreationDate"));
        free(first);
        free(second);
    }
}

TEST(signatures)
{
    const struct pst_figure_options options = {.width_pt = 300, .height_pt = 150};
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 2, 4, thirds, 0);
    size_t length;
    char *bytes = render(timeline, PST_FIGURE_PNG, &options, &length);

    assert_memory_equal(bytes, "\x89PNG\r\n\x1a\n", 8);
    /* two pixels a point, in the header, most significant byte first */
    assert_memory_equal(bytes + 16, "\0\0\x02\x58\0\0\x01\x2c", 8);
    free(bytes);
    bytes = render(timeline, PST_FIGURE_PDF, &options, &length);
    assert_memory_equal(bytes, "%PDF-1.", 7);
    assert_memory_equal(bytes + length - 6, "%%EOF\n", 6);
    free(bytes);
    bytes = render(timeline, PST_FIGURE_SVG, &options, &length);
    expect_text(bytes, "width=\"300pt\" height=\"150pt\"");
    free(bytes);
}

TEST(written_whole_or_not_at_all)
{
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 2, 2, thirds, 0);
    const char *path = support_path("figure.svg");
    struct pst_error err = {0};
    size_t length;
    char *expected = render(timeline, PST_FIGURE_SVG, NULL, &length), *found;

    assert_ok(pst_figure_write(timeline, path, PST_FIGURE_SVG, NULL, &err), &err);
    found = support_read(path);
    assert_string_equal(found, expected);
    assert_int_equal(
        pst_figure_write(timeline, "/nonexistent/figure.svg", PST_FIGURE_SVG, NULL, &err),
        PST_ERR_IO);
    assert_string_equal(err.kind, "output.write");
    free(expected);
    free(found);
}

TEST(sizes_out_of_range)
{
    static const struct pst_figure_options wrong[] = {
        {.width_pt = 199}, {.width_pt = 20000},     {.height_pt = 50},
        {.height_pt = -1}, {.width_pt = 0.0 / 0.0},
    };
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 2, 2, thirds, 0);

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct pst_error err = {0};
        unsigned char *bytes = NULL;
        size_t length = 0;

        assert_int_equal(
            pst_figure_render(timeline, PST_FIGURE_SVG, &wrong[i], &bytes, &length, &err),
            PST_ERR_CONFIG);
        assert_string_equal(err.kind, "config.value");
        assert_null(bytes);
    }
}

/* Nothing at all; ranks without passes; a pass of no length; names and titles from a hostile
   file. */
TEST(odd_timelines)
{
    struct pst_timeline *timeline = NULL;
    struct pst_span span = {.op = PST_I_F, .rank = 1, .start_ns = 5, .end_ns = 5};
    size_t length;
    char *svg;

    pst_timeline_create(3, &timeline);
    pst_timeline_finish_build(timeline);
    svg = render(timeline, PST_FIGURE_SVG, NULL, &length);
    expect_well_formed(svg);
    free(svg);
    pst_timeline_destroy(timeline);

    pst_timeline_create(3, &timeline);
    memset(timeline->ranks[0].name, 0xFF, sizeof timeline->ranks[0].name - 1);
    snprintf(timeline->ranks[1].name, sizeof timeline->ranks[1].name, "a<b>&\"\n\xC3");
    timeline->title = "\xF0\x9F\x98";
    pst_timeline_add(timeline, &span);
    pst_timeline_finish_build(timeline);
    for (int format = PST_FIGURE_SVG; format <= PST_FIGURE_PDF; format++) {
        free(render(timeline, format, NULL, &length));
    }
    pst_timeline_destroy(timeline);
}

/* 64 x 512: shares instead of 65536 boxes, so the file stays small. */
TEST(very_many_passes)
{
    OWN(timeline) *timeline = rig_timeline(RIG_1F1B, 64, 512, thirds, 0);
    size_t length;
    char *svg = render(timeline, PST_FIGURE_SVG, NULL, &length);

    expect_well_formed(svg);
    assert_true(length < 4u << 20);
    /* a band a rank, and the entry of the legend */
    assert_in_range(count_boxes(svg, pst_figure_color(FIGURE_F, 0, 1)), 65, 200);
    free(svg);
}

TEST(ticks_are_round)
{
    static const double ranges[][3] = {{10, 5, 2},  {1, 5, 0.2},     {40, 10, 5},
                                       {99, 4, 50}, {7000, 7, 1000}, {3e-4, 3, 1e-4}};

    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        assert_float_equal(pst_figure_nice_step(ranges[i][0], (uint32_t)ranges[i][1]), ranges[i][2],
                           ranges[i][2] * 1e-6);
    }
}

/* Text is 0.9 of the font high. Nothing is said about a panel with no room on either side. */
TEST(the_peak_is_not_crossed_out)
{
    const double font = 9, top = 100;

    for (double capacity = top + 8; capacity < top + 60; capacity += 0.5) {
        for (double point = capacity; point < capacity + 40; point += 0.5) {
            double y = pst_figure_label_y(point, capacity, top, font);

            assert_true(y < capacity - 0.45 * font || y > capacity + 0.45 * font);
            assert_true(y >= top); /* the legend is above */
        }
    }
    assert_true(pst_figure_label_y(150, -1e9, top, font) < 150);
}

TEST_GROUP(support_begin, support_end)

/* XML 1.0, section 2.2: what is no character of a document; and what a terminal or a reader would
   take as a command. The newline stays, as do other characters. */
TEST(text_of_a_figure_is_xml)
{
    static const struct {
        const char *raw, *wanted;
    } cases[] = {
        {"a<b>&\"\n", "a&lt;b&gt;&amp;&quot;\n"},
        {"\033\x7F\xC2\x9B.", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD."},
        {"\xE2\x80\xAEz", "\xEF\xBF\xBDz"},
        {"\xEF\xBF\xBE\xEF\xBF\xBFz", "\xEF\xBF\xBD\xEF\xBF\xBDz"},
        {"\x9B\xE2\x82z", "\xEF\xBF\xBD\xEF\xBF\xBDz"}, /* a part is one, as on a terminal */
        {"\xC3\xA4\xEF\xBF\xBD\xE2\x82\xAC", "\xC3\xA4\xEF\xBF\xBD\xE2\x82\xAC"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *text = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&text, &length);

        assert_non_null(out);
        pst_put_escaped(out, cases[i].raw);
        fclose(out);
        assert_string_equal(text, cases[i].wanted);
        free(text);
    }
}
