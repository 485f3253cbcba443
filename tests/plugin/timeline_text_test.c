/* SPDX-License-Identifier: Apache-2.0
 *
 * The timeline in the terminal: never wider than it may be, the same picture that a character a
 * unit gives where that fits, shares of the row in proportion to time where it is scaled.
 */
#include "schedule_rig.h"

#include "reports/timeline_text.h"
#include "reports/order_timeline.h"

static char *print(const struct schedule_run *run, uint32_t width, bool colour, bool utf8)
{
    const struct pst_order_drawing drawing = {
        .in = &run->stream.in,
        .passes = (const struct pst_pass *const *)run->stream.passes,
        .n_passes = run->stream.n_passes,
        .eval = &run->eval,
        .n_batches = 1,
        .n_repeats = 1,
        .title = "",
        .ns_per_unit = 1,
    };
    struct pst_timeline *timeline = NULL;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    pst_order_timeline(&drawing, &timeline);
    pst_report_timeline(out, timeline, width, colour, utf8);
    fclose(out);
    pst_timeline_destroy(timeline);
    return text;
}

/* Columns of a line: escapes take none, a character of several bytes takes one. */
static uint32_t columns_of(const char *line)
{
    uint32_t n = 0;

    for (; *line != '\0' && *line != '\n'; line++) {
        if (*line == '\033') {
            line = strchr(line, 'm');
        } else {
            n += ((unsigned char)*line & 0xC0) != 0x80;
        }
    }
    return n;
}

TEST(test_never_too_wide)
{
    static const char *const ids[] = {"1f1b", "v-half", "interleaved", "zb-h2"};

    for (uint32_t i = 0; i < 4; i++) {
        for (uint32_t m = 4; m <= 64; m *= 4) {
            OWN_RUN run = SCHEDULE(ids[i], .p = 4, .m = m, .c = i);

            for (uint32_t width = 10; width < 300; width += 17) {
                char *plain = print(&run, width, false, false);
                char *colour = print(&run, width, true, false);
                char *utf8 = print(&run, width, false, true);
                uint32_t most = width < 48 ? 48 : width, lines = 0;

                for (const char *a = plain, *b = colour, *c = utf8; a != NULL && *a != '\0';) {
                    if (columns_of(a) > most || columns_of(b) > most || columns_of(c) > most) {
                        fail_msg("%s m %u, width %u:\n%s%s", ids[i], m, width, plain, colour);
                    }
                    a = strchr(a, '\n') + 1;
                    b = *b == '\0' ? b : strchr(b, '\n') + 1;
                    c = *c == '\0' ? c : strchr(c, '\n') + 1;
                    lines++;
                }
                assert_true(lines >= 6); /* four devices, axis, legend */
                free(plain);
                free(colour);
                free(utf8);
            }
        }
    }
}

/* One column a unit: 9 for the name, then the picture. */
TEST(test_exact)
{
    static const char *const ids[] = {"gpipe", "1f1b", "zb-h1", "zb-h2", "v-half", "v-min", "v-zb"};

    for (size_t i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        OWN_RUN run = SCHEDULE(ids[i], .p = 4, .m = 8, .unit = 1000);
        uint32_t width = (uint32_t)run.makespan;
        char *text = print(&run, 9 + width, false, false);
        const char *line = text;

        for (uint32_t d = 0; d < 4; d++) {
            char name[16];

            snprintf(name, sizeof name, "device %u ", d);
            assert_memory_equal(line, name, 9);
            assert_memory_equal(line + 9, run.picture + d * (width + 1), width);
            line = strchr(line, '\n') + 1;
        }
        assert_null(strstr(text, "scaled"));
        free(text);
    }
}

/* Three quarters of the row are one pass, and the idle quarter is where it is. */
TEST(test_scaled)
{
    OWN_RUN run = SCHEDULE("gpipe", .p = 1, .m = 1, .f = 30001, .b = 5000, .w = 5003);
    char *text = print(&run, 49, false, false);
    uint32_t n_f = 0, n_x = 0;

    for (const char *c = text + 9; *c != '\n'; c++) {
        n_f += c[0] == 'F' || (c[0] == '-' && n_x == 0) || (c[0] == '0' && n_x == 0);
        n_x += c[0] == 'X';
    }
    assert_int_equal(n_f, 30);
    assert_int_equal(n_x, 1);
    assert_non_null(strstr(text, "scaled"));
    assert_non_null(strstr(text, "40004"));
    free(text);
}
