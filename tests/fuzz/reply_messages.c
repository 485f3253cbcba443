/* SPDX-License-Identifier: Apache-2.0
 *
 * The messages of a planner's process as they come from the pipe: log records, an error or a plan.
 * The first byte says how many bytes come at a time.
 */
#include <string.h>

#include "base/log.h"
#include "fuzz.h"
#include "host/child.h"

static void drop(uint32_t level, const char *area, const char *text)
{
    if (strlen(area) + strlen(text) > PST_WORKER_LOG_BYTES) {
        fuzz_fail("a record of %zu bytes", strlen(text));
    }
}

static void keep(uint32_t type, const void *body, size_t n)
{
    const struct pst_worker_head head = {.magic = PST_WORKER_MAGIC, .type = type, .length = n};
    char message[1 + sizeof head + sizeof(struct pst_error)] = {127};

    memcpy(message + 1, &head, sizeof head);
    memcpy(message + 1 + sizeof head, body, n);
    fuzz_keep(message, 1 + sizeof head + n);
}

void fuzz_begin(void)
{
    struct pst_error err = {0};

    pst_log_set_sink(drop);
    pst_log_set_level(PST_LOG_DEBUG);
    pst_fail_at(&err, PST_ERR_INFEASIBLE, "plan.infeasible", "a.toml", 1, 2, "no plan fits");
    keep(PST_WORKER_STARTED, "", 0);
    keep(PST_WORKER_LOG, "\1\0\0\0area\0text", 13);
    keep(PST_WORKER_PLAN, "{}", 2);
    keep(PST_WORKER_ERROR, &err, sizeof err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct pst_worker_task task;
    static struct pst_breadcrumb_page page;
    static struct pst_worker_output output;
    const struct pst_worker_end end = {.wait_status = 0};
    struct pst_worker_reader reader = {.broken = false};
    struct pst_error err = {0};
    size_t step = size == 0 ? 1 : (size_t)data[0] + 1;

    for (size_t at = 1; at < size; at += step) {
        pst_worker_reader_take(&reader, (const char *)data + at,
                               size - at < step ? size - at : step);
    }
    fuzz_judge(pst_worker_judge(&task, &end, &reader, &page, &output, &err), &err);
    pst_worker_reader_finish(&reader);
    return 0;
}
