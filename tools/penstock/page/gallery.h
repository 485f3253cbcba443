/* SPDX-License-Identifier: Apache-2.0
 *
 * The plans that a command tried, as figures and pages show them: every plan with its shares of
 * time, the fastest ones with their timelines and stages.
 */
#ifndef PST_PAGE_GALLERY_H
#define PST_PAGE_GALLERY_H

#include "figures/stage_figure.h"
#include "reports/compare_report.h"
#include "session/session.h"
#include "sim/timeline.h"

/* Parts of the time of all devices of a simulated step; they add up to 1. */
enum pst_share {
    PST_SHARE_COMPUTE,   /* passes, but for what is below */
    PST_SHARE_RECOMPUTE, /* of results that were dropped */
    PST_SHARE_UPDATE,    /* optimizer */
    PST_SHARE_EXPOSED,   /* idle or standing still while a transfer, copy or reduction goes on */
    PST_SHARE_IDLE,
    PST_SHARES
};

struct pst_exhibit {
    bool known;
    double share[PST_SHARES];
    struct pst_timeline *timeline; /* NULL: not among the fastest */
    struct pst_arena arena;
    struct pst_stage_graph stages; /* where there is a timeline */
};

struct pst_gallery {
    uint32_t n, most, n_kept;     /* records; timelines that are kept, and so far */
    struct pst_exhibit *exhibits; /* [n] */
};

void pst_gallery_begin(struct pst_gallery *ret_gallery, uint32_t n_records, uint32_t most);
void pst_gallery_finish(struct pst_gallery *gallery);

/* The plan of a record, which is looked at in the order of speed: the timelines of the first `most`
   are kept, and that of one that must be. plan.illegal: it cannot be simulated. */
pst_status pst_gallery_add(struct pst_gallery *gallery, uint32_t record, bool must,
                           const struct pst_session *session, struct pst_error *err);

#endif
