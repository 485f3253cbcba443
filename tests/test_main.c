/* SPDX-License-Identifier: Apache-2.0
 *
 * The main of test programs that need no other: the linker takes it where one is missing.
 */
#include "test.h"

int main(void)
{
    return run_own_tests(NULL, NULL);
}
