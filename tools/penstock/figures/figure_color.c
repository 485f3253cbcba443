/* SPDX-License-Identifier: Apache-2.0
 *
 * Colours that stay apart for the common kinds of colour blindness (after M. Okabe and K. Ito,
 * "Color Universal Design", 2008) and, by lightness, mostly in grey.
 */
#include <math.h>

#include "figures/figure_impl.h"
#include "reports/timeline_text.h"

static const struct {
    unsigned rgb;
    const char *name;
} kinds[FIGURE_KINDS] = {
    [FIGURE_F] = {0x2F6FB0, "forward"},
    [FIGURE_BW] = {0xD9642B, "backward"},
    [FIGURE_B] = {0xE8A020, "backward for inputs"},
    [FIGURE_W] = {0x1E9178, "backward for weights"},
    [FIGURE_R] = {0xB668A2, "recompute"},
    [FIGURE_STEP] = {0x5F6670, "optimizer"},
    [FIGURE_ACT] = {0x7FB2DC, "activations sent"},
    [FIGURE_GRAD] = {0xE9A98A, "gradients sent"},
    [FIGURE_OUT] = {0x8C7BC4, "copy to host"},
    [FIGURE_IN] = {0xC0B4E0, "copy from host"},
    [FIGURE_EVICT] = {0x6C5B9E, "to a peer"},
    [FIGURE_LOAD] = {0xA08FCC, "back from a peer"},
    [FIGURE_REDUCE] = {0x9AA35B, "reduction"},
    [FIGURE_HOST] = {0xA9A9A9, "host"},
};

static const unsigned memory[PST_MEM_KINDS] = {0x44546A, 0x7D90A8, 0xB7C3D1, 0x2A9D8F,
                                               0xE9B44C, 0xD98E73, 0x8C7BC4};

static struct pst_color unpack(unsigned rgb)
{
    return (struct pst_color){(rgb >> 16 & 255) / 255.0, (rgb >> 8 & 255) / 255.0,
                              (rgb & 255) / 255.0, PST_AS_IS};
}

static struct pst_color mix(struct pst_color a, struct pst_color b, double part)
{
    return (struct pst_color){a.r + (b.r - a.r) * part, a.g + (b.g - a.g) * part,
                              a.b + (b.b - a.b) * part, PST_AS_IS};
}

/* The first chunk has the full colour, the last one the palest. */
struct pst_color pst_figure_color(enum pst_figure_kind kind, uint32_t chunk, uint32_t n_chunks)
{
    struct pst_color color = unpack(kinds[kind].rgb), white = {1, 1, 1, PST_AS_IS};

    if (n_chunks < 2 || !pst_figure_is_pass(kind)) {
        return color;
    }
    return mix(color, white, (n_chunks == 2 ? 0.5 : 0.68) * chunk / (n_chunks - 1));
}

struct pst_color pst_figure_memory_color(uint32_t kind)
{
    return unpack(memory[kind]);
}

/* A walk from dark blue over green to a yellow that still shows on white. */
struct pst_color pst_figure_rank_color(uint32_t rank, uint32_t n_ranks)
{
    static const unsigned stops[] = {0x3B2A78, 0x31608E, 0x21918C, 0x4FB75E, 0xC9B316};
    double at = n_ranks < 2 ? 0 : 4.0 * rank / (n_ranks - 1);
    int i = at >= 4 ? 3 : (int)at;

    return mix(unpack(stops[i]), unpack(stops[i + 1]), at - i);
}

/* Relative luminance of sRGB as in WCAG 2.1; 0.18 is where black and white read equally well. */
struct pst_color pst_figure_ink(struct pst_color paper)
{
    const double parts[3] = {paper.r, paper.g, paper.b}, weights[3] = {0.2126, 0.7152, 0.0722};
    double luminance = 0;

    for (int i = 0; i < 3; i++) {
        double linear =
            parts[i] <= 0.03928 ? parts[i] / 12.92 : pow((parts[i] + 0.055) / 1.055, 2.4);

        luminance += weights[i] * linear;
    }
    return luminance > 0.30 ? (struct pst_color){0.08, 0.08, 0.08, PST_AS_IS}
                            : (struct pst_color){1, 1, 1, PST_AS_IS};
}

const char *pst_figure_kind_name(enum pst_figure_kind kind)
{
    return kinds[kind].name;
}

enum pst_figure_kind pst_figure_kind_of(const struct pst_span *span)
{
    static const enum pst_figure_kind of[PST_I_COUNT] = {
        [PST_I_F] = FIGURE_F,          [PST_I_B] = FIGURE_B,
        [PST_I_W] = FIGURE_W,          [PST_I_BW] = FIGURE_BW,
        [PST_I_R] = FIGURE_R,          [PST_I_SEND] = FIGURE_ACT,
        [PST_I_RECV] = FIGURE_ACT,     [PST_I_OFFLOAD] = FIGURE_OUT,
        [PST_I_FETCH] = FIGURE_IN,     [PST_I_REDUCE] = FIGURE_REDUCE,
        [PST_I_TIE] = FIGURE_REDUCE,   [PST_I_NORM] = FIGURE_REDUCE,
        [PST_I_STEP] = FIGURE_STEP,    [PST_I_GATHER] = FIGURE_REDUCE,
        [PST_I_MERGE] = FIGURE_REDUCE,
    };

    if (span->op < PST_I_F || span->op >= PST_I_COUNT) {
        return FIGURE_HOST;
    }
    if (of[span->op] != FIGURE_ACT) {
        return of[span->op];
    }
    return span->payload == PST_PAYLOAD_GRAD    ? FIGURE_GRAD
           : span->payload == PST_PAYLOAD_EVICT ? FIGURE_EVICT
           : span->payload == PST_PAYLOAD_LOAD  ? FIGURE_LOAD
                                                : FIGURE_ACT;
}

bool pst_figure_is_pass(enum pst_figure_kind kind)
{
    return kind <= FIGURE_R;
}

uint32_t pst_figure_color_index(const struct pst_figure_page *page, const struct pst_span *span)
{
    enum pst_figure_kind kind = pst_figure_kind_of(span);
    bool pass = pst_figure_is_pass(kind) && span->stage < page->timeline->n_stages;

    return (uint32_t)kind * page->n_chunks +
           (pass ? pst_report_chunk(page->timeline, page->chunk_of, span) : 0);
}
