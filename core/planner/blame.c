/* SPDX-License-Identifier: Apache-2.0
 *
 * Whose fault it is that there is no plan: what calls into plugins came to, and answers that break
 * a rule.
 */
#include "planner/blame.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

pst_status pst_instance_blame(struct pst_instance *instance, struct pst_error *pending,
                              pst_status status, const char *function, struct pst_error *err)
{
    struct pst_error met = {.status = PST_OK};

    if (pending != NULL) {
        met = *pending;
        memset(pending, 0, sizeof *pending);
    }
    if (status == PST_OK) {
        return PST_OK; /* a plugin may live with an answer that failed */
    }
    if (met.status != status) {
        return pst_instance_fail(instance, status, function, err);
    }
    memset(&instance->failure, 0, sizeof instance->failure);
    if (err != NULL) {
        *err = met;
    }
    return status;
}

pst_status pst_plan_illegal(struct pst_error *err, const char *kind, const char *id,
                            const char *format, ...)
{
    char text[768];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pst_fail(err, PST_ERR_BUG, "plan.illegal", "%s \"%s\" made an illegal plan: %s", kind, id,
             text);
    if (err != NULL) {
        err->exit_code = 3;
    }
    return PST_ERR_BUG;
}

pst_status pst_scheduler_blame(const char *id, pst_status status, struct pst_error *err)
{
    if (status != PST_OK && err != NULL && strcmp(err->kind, "plan.illegal") == 0) {
        pst_error_prefix(err, "scheduler \"%s\" made an illegal plan", id);
        err->exit_code = 3;
    }
    return status;
}
