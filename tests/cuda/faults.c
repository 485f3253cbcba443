/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test sets and counts of the double (control.h): the machine, calls that fail when a test
 * says so, and how much of what was made is still there.
 */
#include "faults.h"

#include <stdlib.h>
#include <string.h>

static struct cuda_on_host host = {.n_gpus = 1,
                                   .sms = 132,
                                   .memory_bytes = UINT64_C(80) << 30,
                                   .left_bytes = 1u << 30,
                                   .peers = true};

__attribute__((constructor)) static void read_environment(void)
{
    const char *gpus = getenv("ON_HOST_GPUS"), *sms = getenv("ON_HOST_SMS");
    const char *driver = getenv("ON_HOST_DRIVER");

    host.n_gpus = gpus != NULL ? atoi(gpus) : host.n_gpus;
    host.sms = sms != NULL ? (uint32_t)atoi(sms) : host.sms;
    host.missing = driver != NULL && strcmp(driver, "none") == 0 ? "" : NULL;
}

__attribute__((visibility("default"))) struct cuda_on_host *cuda_on_host(void)
{
    return &host;
}

bool faulty(void)
{
    const int call = atomic_fetch_add(&host.calls, 1) + 1;

    return call == host.fail_at || (host.fail_again && call == host.fail_at + 1);
}

bool broken(void)
{
    return host.break_after > 0 && atomic_load(&host.launches) > host.break_after;
}

cublasStatus_t product_failure(cublasStatus_t usual)
{
    return host.product_fault != 0 ? (cublasStatus_t)host.product_fault : usual;
}
