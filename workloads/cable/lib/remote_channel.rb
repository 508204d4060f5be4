# frozen_string_literal: true

require_relative 'benchmark_channel'

# The same channel for AnyCable: it returns the names of its streams instead of opening them.
class RemoteChannel < BenchmarkChannel
  def streams
    @streams ||= []
  end

  private

  def stream_from(name, *)
    streams << name
  end
end
