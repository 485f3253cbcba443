/* SPDX-License-Identifier: Apache-2.0
 *
 * A schedule in PyTorch's CSV form, read by the scheduler "csv".
 */
#include <stdarg.h>
#include <stdio.h>

#include "fuzz.h"

#include "../../schedulers/csv/file.h"

static char said[1024];

static pst_status fail(const struct pst_host *host, pst_status st, const char *message)
{
    snprintf(said, sizeof said, "%s", message);
    return st;
}

static pst_status read_file(void *file)
{
    csv_read(file);
    return PST_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct pst_host host = {.size = sizeof host, .fail = fail};
    struct csv_file file = {.host = &host, .path = fuzz_file(data, size)};
    pst_status st;

    said[0] = '\0';
    st = call_run(read_file, &file);
    if (st != PST_OK && st != PST_ERR_NOMEM && said[0] == '\0') {
        fuzz_fail("status %d without a word", st);
    }
    return 0;
}
