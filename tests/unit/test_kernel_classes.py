"""Names of kernels as they stand in traces of the field fall into the right class."""

from __future__ import annotations

import pytest

from spectrace.analysis.kernel_classes import KernelClasses, parse_classes
from spectrace.errors import SpectraceError
from spectrace.kernels import KernelClass

K = KernelClass
# Of cuBLAS, CUTLASS, FlashAttention, FlashInfer, sgl-kernel, NCCL, Triton, DeepGEMM and torch.
NAMES = {
    K.MATMUL: [
        "nvjet_tst_64x8_64x16_2x1_v_bz_TNT",
        "nvjet_qqtst_128x64_128x6_2x1_v_bz_TNT",
        "nvjet_hsh_320x128_64x3_1x2_h_bz_coopB_TNT",
        (
            "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute"
            "_segment_k_off_kernel__5x_cublas"
        ),
        "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn",
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_"
            "align8>(cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_64x6_tn_align8::Params)"
        ),
        (
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, "
            "int, int, int>, cutlass::gemm::collective::CollectiveMma<>>>"
        ),
        "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16, float>",
        "void gemmSN_TN_kernel<float, 128, 16, 2, 4, 4, 4, true>",
        "void gemv2T_kernel_val<int, int, __nv_bfloat16, __nv_bfloat16, float, 128, 16, 4, 4>",
        "void deep_gemm::sm90_fp8_gemm_1d2d_impl<0u, 4096u, 7168u, 1u, 64u, 128u, 128u>",
        "_w8a8_block_fp8_matmul",
        "void marlin::Marlin<__nv_bfloat16, 256, 1, 8, 8, 4>",
        "Cijk_Alik_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT16x16x256_MI16x16x1",
    ],
    K.ATTENTION: [
        (
            "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, "
            "false, cutlass::bfloat16_t>, false, false, false, false, true, true, false>"
        ),
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<>>>",
        "void flash::prepare_varlen_num_blocks_kernel<1, true>(int, int, int)",
        "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<>>",
        "void flashinfer::BatchDecodeWithPagedKVCacheKernel<flashinfer::DefaultAttention<>>",
        "void flashinfer::PersistentVariableLengthMergeStatesKernel<8u, 16u, 8u, 4u>",
        "fmhaSm100aKernel_QkvBfloat16OBfloat16H128PagedKvCausalP64VarSeqQ16Kv128",
        "_fwd_grouped_kernel_stage1",
        "_fwd_kernel_stage2",
        "create_flashinfer_kv_indices_triton",
        "void flash::flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>>",
        "void cutlass::device_kernel<cutlass::fmha::kernel::Sm100FmhaMlaKernelTmaWarpspecialized>",
        "merge_state_kernel",
    ],
    K.MOE: [
        "fused_moe_kernel",
        "void moe_align_block_size_kernel<int>(int const*, int*, int*, int*, int, int, int)",
        "void topkGatingSoftmax<__nv_bfloat16, 4, 128, 4, 16, 32, int>",
        "void sgl_kernel::moe_sum_reduce_kernel<__nv_bfloat16>",
        "moe_fused_gate_kernel",
        "bmm_E4m3_E2m1E2m1_Fp32_bA32_bB32_t128x16x256_s6_et128x16_m128x16x32_swiGlu_dynBatch",
        "void deep_gemm::sm90_m_grouped_fp8_gemm_masked_1d2d<m_grouped_gemm>",
        "ep_scatter_2_kernel",
        "_silu_and_mul_masked_post_quant_fwd_moe",
    ],
    K.NORM: [
        "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>",
        "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*)",
        "_rmsnorm_kernel",
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<float, float>",
        "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_rms_norm_0",
        "fused_qknorm_rope_kernel",
    ],
    K.COMMUNICATION: [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_bf16(ncclSymkDevWorkArgs)",
        (
            "void sglang::cross_device_reduce_1stage<__nv_bfloat16, 8>(sglang::RankData*, "
            "sglang::RankSignals, sglang::Signal*, __nv_bfloat16*, int, int)"
        ),
        "void sglang::cross_device_reduce_2stage<__nv_bfloat16, 4>",
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<>",
        "void deep_ep::internode_ll::dispatch<true, false, 7168>",
        "void mscclpp::allreduce7<__half>",
        "multimem_all_reduce_kernel",
        "nvshmemi_transfer_rma_thread",
        "void vllm::two_shot_all_reduce<__nv_bfloat16, 8>",
        "reduce_scatter_tensor_kernel",
    ],
    K.SAMPLING: [
        "void flashinfer::sampling::TopKTopPSamplingFromProbKernel<1024u>",
        "void flashinfer::sampling::TopPRenormProbKernel<1024u>",
        "void VerifyTreeGreedy<int, long>(long*, int*, int*, long*, long*, long*, long*, long*)",
        "void flashinfer::sampling::TreeSpeculativeSamplingTargetOnly<1024u>",
        "void build_tree_efficient<>(long*, int*, long*, bool*, long*, long*, long*, long*)",
        (
            "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, "
            "at::native::ArgMaxOps<float>, unsigned int, long, 4>>"
        ),
        "void at::native::sbtopk::gatherTopK<float, unsigned int, 2, false>",
        "void at::native::mbtopk::radixFindKthValues<float, unsigned int, unsigned int, 1>",
        (
            "void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel"
            "<float, 4, at::native::multinomial>"
        ),
    ],
    K.COPY: [
        "Memcpy DtoH (Device -> Pinned)",
        "Memcpy DtoD (Device -> Device)",
        "Memset (Device)",
        "[CUDA memcpy Device-to-Host]",
        "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy<>",
        "void at::native::index_elementwise_kernel<128, 4, at::native::gpu_index_kernel>",
        "assign_req_to_token_pool",
        "void store_kv_cache_256x1<>",
        "set_mla_kv_buffer_kernel",
    ],
    K.OTHER: [
        "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, silu>",
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<int>>",
        "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128u, 8u, 16u>",
        "void per_token_group_quant_8bit_kernel<__nv_bfloat16, c10::Float8_e4m3fn>",
        "triton_poi_fused_add_mul_silu_0",
        "void at::native::(anonymous namespace)::indexSelectLargeIndex<>",
    ],
}


@pytest.mark.parametrize(
    ("name", "kind"), [(name, kind) for kind, names in NAMES.items() for name in names]
)
def test_a_kernel_of_the_field_is_in_its_class(name: str, kind: KernelClass) -> None:
    """By its name alone."""
    assert KernelClasses().of(name) == kind.value


def test_a_users_pattern_goes_before_the_built_in_ones() -> None:
    """It may name a class anew, or one that is there."""
    classes = KernelClasses({"lm_head": ["^nvjet_tst_512x"], "moe": ["my_expert_product"]})
    assert classes.of("nvjet_tst_512x8_64x3_2x1_v_bz_TNT") == "lm_head"
    assert classes.of("nvjet_tst_64x8_64x16_2x1_v_bz_TNT") == "matmul"
    assert classes.of("gemm_of_my_expert_product") == "moe"


def test_a_users_table_is_read() -> None:
    """Classes and their patterns, in TOML."""
    text = '[classes]\nlm_head = ["^nvjet", "vocab"]\n'
    assert parse_classes(text, "mine.toml") == {"lm_head": ["^nvjet", "vocab"]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[classes\n", "mine.toml is no TOML"),
        ("", "mine.toml lacks what is read there"),
        ('classes = "moe"', "mine.toml lacks what is read there"),
        ("[classes]\nmoe = [1]\n", "mine.toml lacks what is read there"),
        ('[klasses]\nmoe = ["a"]\n', "mine.toml lacks what is read there"),
        pytest.param(f"[classes]\nmoe = {'[' * 100_000}", "mine.toml is no TOML", id="deep"),
        ('[classes]\n"" = ["a"]\n', r"a class that cannot be shown, '': call it"),
        ('[classes]\n" " = ["a"]\n', "a class that cannot be shown"),
        ('[classes]\n"two\\nlines" = ["a"]\n', r"cannot be shown, 'two\\nlines'"),
        (f'[classes]\n{"n" * 41} = ["a"]\n', "1 to 40 letters"),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(text: str, sentence: str) -> None:
    """One sentence says what is wrong."""
    with pytest.raises(SpectraceError, match=sentence):
        parse_classes(text, "mine.toml")


@pytest.mark.parametrize(
    "pattern",
    ["(unclosed", "a{99999999999}", "(" * 20_000 + ")" * 20_000],
    ids=["unclosed", "too-often", "too-deep"],
)
def test_a_pattern_that_is_none_is_refused(pattern: str) -> None:
    """The class of it is named."""
    with pytest.raises(SpectraceError, match=r"kernel class moe .* mend it"):
        KernelClasses({"moe": ["fine", pattern]})


def test_each_pattern_is_one_by_itself() -> None:
    """Its groups are counted and named for it alone, and its flags stand at its begin."""
    classes = KernelClasses(
        {"twice": ["(a)x", r"(b)y\1", "(?P<it>c)z(?P=it)", "(?P<it>d)", "(?x) e e"]}
    )
    names = ["ax", "byb", "bya", "czc", "czd", "d", "ee"]
    assert [name for name in names if classes.of(name) != "twice"] == ["bya"]


def test_an_empty_list_of_patterns_matches_nothing() -> None:
    """It is no pattern that fits everything."""
    assert KernelClasses({"moe": []}).of("anything") == "other"
