# frozen_string_literal: true

module CaratRuntime
  # Enables Ruby's compiler in each worker.
  class Yjit < Setting
    named "yjit"

    def in_child
      return unless value == "after-fork"

      RubyVM::YJIT.enable
      true
    end

    def forks?
      value == "after-fork"
    end
  end
end
