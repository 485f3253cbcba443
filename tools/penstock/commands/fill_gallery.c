/* SPDX-License-Identifier: Apache-2.0 */
#include "commands/fill_gallery.h"

#include <stdlib.h>

#include "base/memory.h"
#include "base/signals.h"
#include "page/page.h"
#include "reports/compare_columns.h"

struct plan_shown {
    struct pst_gallery *gallery;
    uint32_t record;
    bool must;
};

static pst_status add_plan(void *context, const struct pst_session *session, struct pst_error *err)
{
    const struct plan_shown *shown = context;

    return pst_gallery_add(shown->gallery, shown->record, shown->must, session, err);
}

void pst_cli_fill_gallery(struct pst_cli *cli, const struct pst_cli_sets *sets,
                          const struct pst_compare_result *result, struct pst_gallery *gallery)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order);
    uint32_t n = pst_compare_order(result, order);

    n = n < PST_PAGE_LOOKS ? n : PST_PAGE_LOOKS;
    for (uint32_t place = 0; place < n && !pst_stop_requested(); place++) {
        struct plan_shown shown = {gallery, order[place], false};
        const struct pst_trial *trial = &result->records[order[place]].trial;
        char *config;

        if (trial->plan == NULL) {
            continue;
        }
        config = pst_cli_config(sets, result->records[order[place]].combination);
        pst_cli_progress(cli, place, n, &result->records[order[place]]);
        for (uint32_t i = 0; i < result->n; i++) {
            const struct pst_versus *baseline = &result->records[i].baseline;

            shown.must |= baseline->known && baseline->record == order[place];
        }
        pst_cli_must(cli, pst_trial_look(config, trial, add_plan, &shown, &cli->err));
        free(config);
    }
    pst_cli_progress(cli, 0, 0, NULL);
    free(order);
}
