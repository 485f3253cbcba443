/* SPDX-License-Identifier: Apache-2.0
 *
 * PASS5: an asynchronous plan is drained as often as its config says.
 */
#include <jansson.h>

#include "prove/internal.h"

bool pst_check_drains(struct pst_check *check)
{
    const struct pst_plan *plan = check->plan;
    uint32_t before = check->report->n_violations;
    if (plan->config_json == NULL) {
        return true;
    }
    json_t *config = json_loads(plan->config_json, 0, NULL);
    json_t *train = json_object_get(config, "train");
    json_t *every = json_object_get(train, "drain_every");
    json_int_t wanted = json_integer_value(every); /* 0, the default, where there is none */
    if (wanted != (json_int_t)plan->drain_every) {
        pst_check_add(check, "PASS5", PST_NONE, PST_NONE,
                      "drained every %u batches (0: at the end), but train.drain_every is %lld",
                      plan->drain_every, (long long)wanted);
    }
    json_decref(config);
    return check->report->n_violations == before;
}
