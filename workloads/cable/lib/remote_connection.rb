# frozen_string_literal: true

# What a channel needs of a connection whose socket is in another process: it collects what is to be sent.
class RemoteConnection
  attr_reader :transmissions

  def initialize
    @transmissions = []
  end

  def identifiers
    []
  end

  def logger
    ActionCable.server.logger
  end

  def transmit(message)
    @transmissions << ActiveSupport::JSON.encode(message)
  end
end
