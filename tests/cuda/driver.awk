# SPDX-License-Identifier: Apache-2.0
#
# From the names that libcuda exports to the C source of a driver that does nothing and says that
# all is well: enough for NVIDIA's libraries to choose and compile kernels where there is no GPU.
# Results that are pointers to handles are one dummy; there is one device, and no cuInit().
BEGIN {
    print "#define DOES_NOTHING(name) int name(void); int name(void) { return 0; }"
    print "static char handle;"
}
{ sub(/@.*/, "", $3) }
$2 != "T" && $2 != "W" { next }
seen[$3]++ { next }
$3 == "cuInit" { print "int cuInit(unsigned f); int cuInit(unsigned f) { (void)f; return 100; }"; next }
$3 == "cuGetExportTable" {
    print "int cuGetExportTable(void); int cuGetExportTable(void) { return 500; }"
    next
}
$3 == "cuGetErrorString" || $3 == "cuGetErrorName" {
    printf "int %s(int e, const char **text); int %s(int e, const char **text)", $3, $3
    print " { (void)e; *text = \"no driver\"; return 0; }"
    next
}
$3 == "cuDriverGetVersion" || $3 == "cuDeviceGetCount" {
    printf "int %s(int *n); int %s(int *n) { *n = %d; return 0; }\n", $3, $3,
        $3 == "cuDeviceGetCount" ? 1 : 13000
    next
}
$3 == "cuLibraryLoadData" || $3 == "cuLibraryGetKernel" {
    printf "int %s(void **h); int %s(void **h) { *h = &handle; return 0; }\n", $3, $3
    next
}
{ print "DOES_NOTHING(" $3 ")" }
