# frozen_string_literal: true

module CaratRuntime
  # Until the first fork of a preloaded server: keeps what Ruby allocates with calloc on pages of its own.
  class CallocArena < Setting
    named "calloc_arena"

    def start
      case CaratRuntime.separate_calloc
      when 1 then true
      when 0 then refuse("malloc is not jemalloc")
      else refuse("this Ruby's calls of calloc cannot be redirected")
      end
    end

    def before_fork
      join if CaratRuntime.preloaded?
      nil
    end

    # A worker of a server without preloading, or a helper.
    def in_child
      join
      nil
    end

    def preloads?
      true
    end

    private

    def join
      CaratRuntime.count(:calloc_bytes, CaratRuntime.join_calloc)
    end
  end
end
