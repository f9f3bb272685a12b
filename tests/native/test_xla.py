"""Our declarations of XLA's foreign function interface are those of its header."""

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "gradwatch" / "native"


SAME = """
#include "xla_ffi.h"
#include "xla/ffi/api/c_api.h"
#define SIZE(a, b) _Static_assert(sizeof(struct a) == sizeof(struct b), #a);
#define AT(a, x, b, y) _Static_assert( \\
  offsetof(struct a, x) == offsetof(struct b, y) && \\
  sizeof(((struct a *)0)->x) == sizeof(((struct b *)0)->y), #a "." #x);
SIZE(ffi_extension, XLA_FFI_Extension_Base)
AT(ffi_extension, type, XLA_FFI_Extension_Base, type)
AT(ffi_extension, next, XLA_FFI_Extension_Base, next)
SIZE(ffi_version, XLA_FFI_Api_Version)
AT(ffi_version, major, XLA_FFI_Api_Version, major_version)
AT(ffi_version, minor, XLA_FFI_Api_Version, minor_version)
AT(ffi_metadata, version, XLA_FFI_Metadata, api_version)
AT(ffi_metadata, traits, XLA_FFI_Metadata, traits)
AT(ffi_metadata_extension, metadata, XLA_FFI_Metadata_Extension, metadata)
SIZE(ffi_error_request, XLA_FFI_Error_Create_Args)
AT(ffi_error_request, message, XLA_FFI_Error_Create_Args, message)
AT(ffi_error_request, code, XLA_FFI_Error_Create_Args, errc)
AT(ffi_api, version, XLA_FFI_Api, api_version)
AT(ffi_api, make_error, XLA_FFI_Api, XLA_FFI_Error_Create)
SIZE(ffi_buffer, XLA_FFI_Buffer)
AT(ffi_buffer, type, XLA_FFI_Buffer, dtype)
AT(ffi_buffer, data, XLA_FFI_Buffer, data)
AT(ffi_buffer, rank, XLA_FFI_Buffer, rank)
AT(ffi_buffer, lengths, XLA_FFI_Buffer, dims)
SIZE(ffi_values, XLA_FFI_Args)
SIZE(ffi_values, XLA_FFI_Rets)
AT(ffi_values, count, XLA_FFI_Args, size)
AT(ffi_values, kinds, XLA_FFI_Args, types)
AT(ffi_values, values, XLA_FFI_Rets, rets)
AT(ffi_call, api, XLA_FFI_CallFrame, api)
AT(ffi_call, stage, XLA_FFI_CallFrame, stage)
AT(ffi_call, arguments, XLA_FFI_CallFrame, args)
AT(ffi_call, results, XLA_FFI_CallFrame, rets)
#define EQUAL(a, b) _Static_assert((int)(a) == (int)(b), #a);
EQUAL(FFI_MAJOR, XLA_FFI_API_MAJOR)
EQUAL(FFI_EXTENSION_METADATA, XLA_FFI_Extension_Metadata)
EQUAL(FFI_STAGE_EXECUTE, XLA_FFI_ExecutionStage_EXECUTE)
EQUAL(FFI_KIND_BUFFER, XLA_FFI_ArgType_BUFFER)
EQUAL(FFI_KIND_BUFFER, XLA_FFI_RetType_BUFFER)
EQUAL(FFI_INVALID_ARGUMENT, XLA_FFI_Error_Code_INVALID_ARGUMENT)
EQUAL(FFI_UINT8, XLA_FFI_DataType_U8)
EQUAL(FFI_UINT32, XLA_FFI_DataType_U32)
EQUAL(FFI_FLOAT16, XLA_FFI_DataType_F16)
EQUAL(FFI_FLOAT32, XLA_FFI_DataType_F32)
EQUAL(FFI_FLOAT64, XLA_FFI_DataType_F64)
EQUAL(FFI_BFLOAT16, XLA_FFI_DataType_BF16)
"""


def test_our_declarations_of_the_ffi_are_those_of_jaxlib(tmp_path):
    """Sizes, offsets and numbers, compared by a C compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    jaxlib = importlib.util.find_spec("jaxlib")
    if compiler is None or jaxlib is None:
        pytest.skip("needs a C compiler and the headers of jaxlib")
    source = tmp_path / "same.c"
    source.write_text(SAME)
    headers = [f"-I{SOURCES}", f"-I{Path(jaxlib.origin).parent / 'include'}"]
    line = [compiler, "-std=c11", "-fsyntax-only", *headers, str(source)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
