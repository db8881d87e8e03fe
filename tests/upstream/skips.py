"""Names every test of the library's that is skipped here, with the reason.

A test that is skipped and isn't listed fails, and so does a listed one that runs.
"""

# Skipped wherever they run: what they are about, no class of ours has.
ABOUT_OTHERS = {
    "no class generates text, so there is no cache, and no causal or shifted loss": (
        "test_bc_cache_name_forward",
        "test_causal_lm_loss_honors_shift_labels",
        "test_encoder_decoder_loss_no_double_shift",
    ),
    "the configuration holds no other configuration": (
        "test_attn_implementation_composite_models",
        "test_can_set_attention_dynamically_composite_model",
        "test_flash_attn_2_can_dispatch_composite_models",
        "test_flash_attn_3_can_dispatch_composite_models",
        "test_flash_attn_4_can_dispatch_composite_models",
        "test_internal_model_config_and_subconfig_are_same",
        "test_sdpa_can_dispatch_composite_models",
    ),
    "attention is eager or sdpa: the library's flash and flex attention are not offered": (
        "test_flash_attn_2_can_compile_with_attention_mask_None_without_graph_break",
        "test_flash_attn_2_fp32_ln",
        "test_flash_attn_2_from_config",
        "test_flash_attn_2_inference_equivalence",
        "test_flash_attn_2_inference_equivalence_right_padding",
        "test_flash_attn_3_from_config",
        "test_flash_attn_3_inference_equivalence",
        "test_flash_attn_3_inference_equivalence_right_padding",
        "test_flash_attn_4_from_config",
        "test_flash_attn_4_inference_equivalence",
        "test_flash_attn_4_inference_equivalence_right_padding",
        "test_flash_attn_kernels_inference_equivalence",
        "test_flash_attn_kernels_mps_inference_equivalence",
        "test_flex_attention_with_grads",
    ),
    "positions are a table, as in BERT: nothing rotates, and its length is fixed when the model is made": (
        "test_model_rope_scaling_frequencies",
        "test_model_rope_scaling_from_config_0_linear",
        "test_model_rope_scaling_from_config_1_dynamic",
        "test_model_rope_scaling_from_config_2_yarn",
        "test_model_rope_with_partial_rotation",
        "test_resize_position_vector_embeddings",
        "test_vision_axial_rope",
    ),
    "every position attends to every other: there is no window": ("test_sliding_window_mask",),
    "there are no experts": (
        "test_eager_matches_batched_and_grouped_inference_0_fp16",
        "test_eager_matches_batched_and_grouped_inference_1_fp32",
        "test_eager_matches_batched_and_grouped_inference_2_bf16",
        "test_moe_models_record_router_logits",
        "test_output_router_logits_from_config",
    ),
    "hidden states and attentions are collected in the forward itself, not by the library's hooks": (
        "test_can_capture_specific_layers_hidden_states",
        "test_capture_outputs_decorator",
    ),
    "a head passes output_attentions on, so its signature doesn't name it: our own tests compare the attentions": (
        "test_eager_matches_sdpa_inference_24_fp32_pad_left_output_attentions",
    ),
    "no module is kept in float32 when a model is loaded in half precision": (
        "test_keep_in_fp32_modules",
        "test_keep_in_fp32_modules_exist",
        "test_keep_in_fp32_modules_strict_also_hardcode_fp32",
    ),
    "weights are stored under the names that they have in the model: nothing is converted": (
        "test_can_load_from_already_mapped_keys",
        "test_reverse_loading_mapping",
    ),
    "a model this small has no plan to be split by tensors": ("test_tp_plan_matches_params",),
    "the tokenizer has no chat_template parameter of its own": ("test_chat_template_save_loading",),
    "a pipeline for images, sound, tables or generated text": tuple(
        f"test_pipeline_{task}{precision}"
        for task in (
            "any_to_any",
            "audio_classification",
            "automatic_speech_recognition",
            "depth_estimation",
            "document_question_answering",
            "image_classification",
            "image_feature_extraction",
            "image_segmentation",
            "image_text_to_text",
            "mask_generation",
            "object_detection",
            "table_question_answering",
            "text_generation",
            "text_to_audio",
            "video_classification",
            "zero_shot_audio_classification",
            "zero_shot_image_classification",
            "zero_shot_object_detection",
        )
        for precision in ("", "_fp16")
    ),
}

# Skipped on a machine that lacks something; they may run on one with a GPU.
ABOUT_MACHINES = {
    "needs a GPU": (
        "test_can_load_with_device_context_manager",
        "test_can_load_with_global_device_set",
        "test_cpu_offload",
        "test_disk_offload_bin",
        "test_disk_offload_safetensors",
        "test_sdpa_can_compile_dynamic",
        "test_sdpa_can_dispatch_on_flash",
    ),
    "needs two GPUs": ("test_model_parallelism",),
    "needs a GPU and the package kernels": ("test_kernels_can_load_without_crashing",),
    "needs GPUs and DeepSpeed": (
        "test_resize_embeddings_untied_with_deepspeed",
        "test_resize_embeddings_untied_with_deepspeed_multi_gpu",
        "test_resize_tokens_embeddings_with_deepspeed",
        "test_resize_tokens_embeddings_with_deepspeed_multi_gpu",
    ),
}

ALWAYS = {name for names in ABOUT_OTHERS.values() for name in names}
HERE = {name for names in ABOUT_MACHINES.values() for name in names}
